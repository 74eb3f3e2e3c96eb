"""The door of TensorFlow Lite: reads a `.tflite` file, and translates its operators to those of ONNX, one by one."""
