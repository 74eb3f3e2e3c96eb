CREATE TABLE public.accepted_packages (
    id bigint NOT NULL,
    farm text NOT NULL,
    cell text NOT NULL,
    settings text NOT NULL,
    night text NOT NULL,
    package text NOT NULL,
    facts text NOT NULL,
    utc text NOT NULL,
    by text NOT NULL,
    because text NOT NULL
);
CREATE SEQUENCE public.accepted_packages_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.accepted_packages_id_seq OWNED BY public.accepted_packages.id;
CREATE TABLE public.drained (
    id bigint NOT NULL,
    name text NOT NULL,
    by text NOT NULL,
    utc text NOT NULL
);
CREATE SEQUENCE public.drained_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.drained_id_seq OWNED BY public.drained.id;
CREATE TABLE public.edgetune (
    application_id bigint NOT NULL,
    schema_version bigint NOT NULL
);
CREATE SEQUENCE public.edgetune_application_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.edgetune_application_id_seq OWNED BY public.edgetune.application_id;
CREATE TABLE public.ends (
    id bigint NOT NULL,
    workload text NOT NULL COLLATE pg_catalog."C",
    target_fingerprint text NOT NULL COLLATE pg_catalog."C",
    toolchain text NOT NULL COLLATE pg_catalog."C",
    codegen_version bigint NOT NULL,
    board text NOT NULL COLLATE pg_catalog."C",
    utc text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.ends_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.ends_id_seq OWNED BY public.ends.id;
CREATE TABLE public.night_attempts (
    id bigint NOT NULL,
    night_cell_id bigint NOT NULL,
    number integer NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    begun_utc text NOT NULL,
    ended_utc text,
    outcome text NOT NULL
);
CREATE SEQUENCE public.night_attempts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.night_attempts_id_seq OWNED BY public.night_attempts.id;
CREATE TABLE public.night_cells (
    id bigint NOT NULL,
    night_id bigint NOT NULL,
    "position" integer NOT NULL,
    cell text NOT NULL,
    model text NOT NULL,
    board text NOT NULL,
    kind text NOT NULL,
    searches integer NOT NULL,
    settings text NOT NULL,
    attempt integer NOT NULL
);
CREATE SEQUENCE public.night_cells_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.night_cells_id_seq OWNED BY public.night_cells.id;
CREATE TABLE public.night_notifications (
    id bigint NOT NULL,
    night_id bigint NOT NULL,
    told text NOT NULL,
    fault text NOT NULL,
    utc text NOT NULL
);
CREATE SEQUENCE public.night_notifications_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.night_notifications_id_seq OWNED BY public.night_notifications.id;
CREATE TABLE public.nights (
    id bigint NOT NULL,
    farm text NOT NULL,
    night text NOT NULL,
    begun_utc text NOT NULL,
    ends_utc text,
    finished_utc text,
    host text NOT NULL,
    tool_version text NOT NULL,
    owner text NOT NULL,
    "limit" double precision NOT NULL
);
CREATE SEQUENCE public.nights_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.nights_id_seq OWNED BY public.nights.id;
CREATE TABLE public.records (
    id bigint NOT NULL,
    workload text NOT NULL COLLATE pg_catalog."C",
    target_fingerprint text NOT NULL COLLATE pg_catalog."C",
    toolchain text NOT NULL COLLATE pg_catalog."C",
    codegen_version bigint NOT NULL,
    board text NOT NULL COLLATE pg_catalog."C",
    candidate text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    median_ns double precision,
    ci_low_ns double precision,
    ci_high_ns double precision,
    max_error double precision,
    scratch_bytes bigint NOT NULL,
    code_bytes bigint NOT NULL,
    seed bigint NOT NULL,
    round bigint NOT NULL,
    build_seconds double precision NOT NULL,
    measure_seconds double precision NOT NULL,
    created_utc text NOT NULL COLLATE pg_catalog."C",
    tool_version text NOT NULL COLLATE pg_catalog."C",
    workload_name text NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL COLLATE pg_catalog."C",
    reason text NOT NULL COLLATE pg_catalog."C",
    environment text NOT NULL COLLATE pg_catalog."C",
    samples_ns text NOT NULL COLLATE pg_catalog."C",
    trace text NOT NULL COLLATE pg_catalog."C"
);
CREATE SEQUENCE public.records_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.records_id_seq OWNED BY public.records.id;
CREATE TABLE public.start_origins (
    start_id bigint NOT NULL,
    host text NOT NULL COLLATE pg_catalog."C",
    run text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.starts (
    id bigint NOT NULL,
    workload text NOT NULL COLLATE pg_catalog."C",
    target_fingerprint text NOT NULL COLLATE pg_catalog."C",
    toolchain text NOT NULL COLLATE pg_catalog."C",
    codegen_version bigint NOT NULL,
    board text NOT NULL COLLATE pg_catalog."C",
    candidate text NOT NULL COLLATE pg_catalog."C",
    utc text NOT NULL COLLATE pg_catalog."C",
    pid bigint NOT NULL
);
CREATE SEQUENCE public.starts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.starts_id_seq OWNED BY public.starts.id;
CREATE TABLE public.verdicts (
    id bigint NOT NULL,
    night_cell_id bigint NOT NULL,
    attempt integer NOT NULL,
    verdict text NOT NULL,
    reason text NOT NULL,
    package text NOT NULL,
    facts text NOT NULL,
    utc text NOT NULL
);
CREATE SEQUENCE public.verdicts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.verdicts_id_seq OWNED BY public.verdicts.id;
ALTER TABLE ONLY public.accepted_packages ALTER COLUMN id SET DEFAULT nextval('public.accepted_packages_id_seq'::regclass);
ALTER TABLE ONLY public.drained ALTER COLUMN id SET DEFAULT nextval('public.drained_id_seq'::regclass);
ALTER TABLE ONLY public.edgetune ALTER COLUMN application_id SET DEFAULT nextval('public.edgetune_application_id_seq'::regclass);
ALTER TABLE ONLY public.ends ALTER COLUMN id SET DEFAULT nextval('public.ends_id_seq'::regclass);
ALTER TABLE ONLY public.night_attempts ALTER COLUMN id SET DEFAULT nextval('public.night_attempts_id_seq'::regclass);
ALTER TABLE ONLY public.night_cells ALTER COLUMN id SET DEFAULT nextval('public.night_cells_id_seq'::regclass);
ALTER TABLE ONLY public.night_notifications ALTER COLUMN id SET DEFAULT nextval('public.night_notifications_id_seq'::regclass);
ALTER TABLE ONLY public.nights ALTER COLUMN id SET DEFAULT nextval('public.nights_id_seq'::regclass);
ALTER TABLE ONLY public.records ALTER COLUMN id SET DEFAULT nextval('public.records_id_seq'::regclass);
ALTER TABLE ONLY public.starts ALTER COLUMN id SET DEFAULT nextval('public.starts_id_seq'::regclass);
ALTER TABLE ONLY public.verdicts ALTER COLUMN id SET DEFAULT nextval('public.verdicts_id_seq'::regclass);
INSERT INTO public.edgetune VALUES (1702121009, 1);
INSERT INTO public.ends VALUES (1, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', '2026-11-25T08:24:04.057275Z');
INSERT INTO public.ends VALUES (2, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, '', '2026-11-25T08:24:04.073236Z');
INSERT INTO public.nights VALUES (1, 'f', '2026-01-01', '2026-11-25T08:24:04.268481Z', NULL, NULL, 'h', '1', '', 0.02);
INSERT INTO public.records VALUES (1, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', '8694ff758e31db8ecef363d4bfd657ea3a361da85c37d5ba32c7edec188e664d', 'ok', 100, 98.5, 102.25, NULL, 0, 0, 0, 0, 0, 0, '2026-01-01T00:00:00.000000Z', '0.1.0', 'conv2d_add_relu', 'host', '', '{"governor": "performance", "mhz": 2400.5, "temperature": null}', '[98.5, 100.0, 102.25]', '[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
INSERT INTO public.records VALUES (2, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', '16aa25f1cbe5ef3383b3443d0dd957b6065d0a98a75175397863cf9b2696600b', 'ok', 101, 99.5, 103.25, NULL, 0, 0, 0, 0, 0, 0, '2026-01-01T00:00:00.000000Z', '0.1.0', 'conv2d_add_relu', 'host', '', '{"governor": "performance", "mhz": 2400.5, "temperature": null}', '[99.5, 101.0, 103.25]', '[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
INSERT INTO public.records VALUES (3, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', '575105d89108eb38c8e1b583a588af9b4866e7c04dcf24a27d33dc9e8958bf70', 'ok', 102, 100.5, 104.25, NULL, 0, 0, 0, 0, 0, 0, '2026-01-01T00:00:00.000000Z', '0.1.0', 'conv2d_add_relu', 'host', '', '{"governor": "performance", "mhz": 2400.5, "temperature": null}', '[100.5, 102.0, 104.25]', '[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
INSERT INTO public.records VALUES (4, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', 'b29ec6d0d859e36aff5b5c5c5f706bb2dbc076bc4a734dfa0729c3c158fe8e78', 'crashed', NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, '2026-01-01T00:00:00.000000Z', '0.1.0', 'conv2d_add_relu', 'host', 'signal 11', '{"governor": "performance", "mhz": 2400.5, "temperature": null}', '[]', '[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
INSERT INTO public.start_origins VALUES (1, 'shelf-1', '2026-01-01 m@b');
INSERT INTO public.start_origins VALUES (2, 'shelf-1', '2026-01-01 m@b');
INSERT INTO public.start_origins VALUES (3, 'shelf-1', '2026-01-01 m@b');
INSERT INTO public.start_origins VALUES (4, 'shelf-1', '');
INSERT INTO public.starts VALUES (1, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', '8694ff758e31db8ecef363d4bfd657ea3a361da85c37d5ba32c7edec188e664d', '2026-11-25T08:24:03.853081Z', 1851);
INSERT INTO public.starts VALUES (2, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', '16aa25f1cbe5ef3383b3443d0dd957b6065d0a98a75175397863cf9b2696600b', '2026-11-25T08:24:03.912714Z', 1851);
INSERT INTO public.starts VALUES (3, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', '575105d89108eb38c8e1b583a588af9b4866e7c04dcf24a27d33dc9e8958bf70', '2026-11-25T08:24:03.957325Z', 1851);
INSERT INTO public.starts VALUES (4, '44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6', 'x86_64-avx512', 'gcc-12.2.0-ab12', 3, 'bench-1', 'b29ec6d0d859e36aff5b5c5c5f706bb2dbc076bc4a734dfa0729c3c158fe8e78', '2026-11-25T08:24:03.985925Z', 1851);
SELECT pg_catalog.setval('public.accepted_packages_id_seq', 1, false);
SELECT pg_catalog.setval('public.drained_id_seq', 1, false);
SELECT pg_catalog.setval('public.edgetune_application_id_seq', 1, false);
SELECT pg_catalog.setval('public.ends_id_seq', 2, true);
SELECT pg_catalog.setval('public.night_attempts_id_seq', 1, false);
SELECT pg_catalog.setval('public.night_cells_id_seq', 1, false);
SELECT pg_catalog.setval('public.night_notifications_id_seq', 1, false);
SELECT pg_catalog.setval('public.nights_id_seq', 1, true);
SELECT pg_catalog.setval('public.records_id_seq', 4, true);
SELECT pg_catalog.setval('public.starts_id_seq', 4, true);
SELECT pg_catalog.setval('public.verdicts_id_seq', 1, false);
ALTER TABLE ONLY public.accepted_packages
    ADD CONSTRAINT accepted_packages_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.drained
    ADD CONSTRAINT drained_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.edgetune
    ADD CONSTRAINT edgetune_pkey PRIMARY KEY (application_id);
ALTER TABLE ONLY public.ends
    ADD CONSTRAINT ends_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.night_attempts
    ADD CONSTRAINT night_attempts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.night_cells
    ADD CONSTRAINT night_cells_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.night_notifications
    ADD CONSTRAINT night_notifications_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.nights
    ADD CONSTRAINT nights_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.night_cells
    ADD CONSTRAINT one_cell_per_night UNIQUE (night_id, cell);
ALTER TABLE ONLY public.drained
    ADD CONSTRAINT one_drain_per_name UNIQUE (name);
ALTER TABLE ONLY public.ends
    ADD CONSTRAINT one_end_per_key UNIQUE (workload, target_fingerprint, toolchain, codegen_version, board);
ALTER TABLE ONLY public.nights
    ADD CONSTRAINT one_night_per_date UNIQUE (farm, night);
ALTER TABLE ONLY public.night_notifications
    ADD CONSTRAINT one_notification_per_night UNIQUE (night_id);
ALTER TABLE ONLY public.records
    ADD CONSTRAINT one_record_per_candidate UNIQUE (workload, target_fingerprint, toolchain, codegen_version, board, candidate);
ALTER TABLE ONLY public.night_attempts
    ADD CONSTRAINT one_row_per_attempt UNIQUE (night_cell_id, number);
ALTER TABLE ONLY public.records
    ADD CONSTRAINT records_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.start_origins
    ADD CONSTRAINT start_origins_pkey PRIMARY KEY (start_id);
ALTER TABLE ONLY public.starts
    ADD CONSTRAINT starts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.verdicts
    ADD CONSTRAINT verdicts_night_cell_id_key UNIQUE (night_cell_id);
ALTER TABLE ONLY public.verdicts
    ADD CONSTRAINT verdicts_pkey PRIMARY KEY (id);
CREATE INDEX ix_accepted_packages_cell ON public.accepted_packages USING btree (cell);
CREATE INDEX ix_night_attempts_night_cell_id ON public.night_attempts USING btree (night_cell_id);
CREATE INDEX ix_night_cells_night_id ON public.night_cells USING btree (night_id);
CREATE INDEX ix_starts_candidate ON public.starts USING btree (candidate);
