"""Layout: kernels work channels last, and the transposes that this needs meet their inverse, or are folded away."""
