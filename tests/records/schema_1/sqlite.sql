PRAGMA application_id=1702121009;
PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE accepted_packages (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	farm TEXT NOT NULL, 
	cell TEXT NOT NULL, 
	settings TEXT NOT NULL, 
	night TEXT NOT NULL, 
	package TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	utc TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	because TEXT NOT NULL
);
CREATE TABLE drained (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name TEXT NOT NULL, 
	"by" TEXT NOT NULL, 
	utc TEXT NOT NULL, 
	CONSTRAINT one_drain_per_name UNIQUE (name)
);
CREATE TABLE ends (
	id INTEGER NOT NULL, 
	workload TEXT NOT NULL, 
	target_fingerprint TEXT NOT NULL, 
	toolchain TEXT NOT NULL, 
	codegen_version BIGINT NOT NULL, 
	board TEXT NOT NULL, 
	utc TEXT NOT NULL, 
	PRIMARY KEY (id), 
	CONSTRAINT one_end_per_key UNIQUE (workload, target_fingerprint, toolchain, codegen_version, board)
);
INSERT INTO "ends" VALUES(1,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','2026-11-25T08:23:57.809891Z');
INSERT INTO "ends" VALUES(2,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'','2026-11-25T08:23:57.811824Z');
CREATE TABLE night_attempts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	night_cell_id BIGINT NOT NULL, 
	number INTEGER NOT NULL, 
	host TEXT NOT NULL, 
	pid BIGINT NOT NULL, 
	begun_utc TEXT NOT NULL, 
	ended_utc TEXT, 
	outcome TEXT NOT NULL, 
	CONSTRAINT one_row_per_attempt UNIQUE (night_cell_id, number)
);
CREATE TABLE night_cells (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	night_id BIGINT NOT NULL, 
	position INTEGER NOT NULL, 
	cell TEXT NOT NULL, 
	model TEXT NOT NULL, 
	board TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	searches INTEGER NOT NULL, 
	settings TEXT NOT NULL, 
	attempt INTEGER NOT NULL, 
	CONSTRAINT one_cell_per_night UNIQUE (night_id, cell)
);
CREATE TABLE night_notifications (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	night_id BIGINT NOT NULL, 
	told TEXT NOT NULL, 
	fault TEXT NOT NULL, 
	utc TEXT NOT NULL, 
	CONSTRAINT one_notification_per_night UNIQUE (night_id)
);
CREATE TABLE nights (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	farm TEXT NOT NULL, 
	night TEXT NOT NULL, 
	begun_utc TEXT NOT NULL, 
	ends_utc TEXT, 
	finished_utc TEXT, 
	host TEXT NOT NULL, 
	tool_version TEXT NOT NULL, 
	owner TEXT NOT NULL, 
	"limit" FLOAT NOT NULL, 
	CONSTRAINT one_night_per_date UNIQUE (farm, night)
);
INSERT INTO "nights" VALUES(1,'f','2026-01-01','2026-11-25T08:23:57.933639Z',NULL,NULL,'h','1','',0.02);
CREATE TABLE records (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	workload TEXT NOT NULL, 
	target_fingerprint TEXT NOT NULL, 
	toolchain TEXT NOT NULL, 
	codegen_version BIGINT NOT NULL, 
	board TEXT NOT NULL, 
	candidate TEXT NOT NULL, 
	status TEXT NOT NULL, 
	median_ns FLOAT, 
	ci_low_ns FLOAT, 
	ci_high_ns FLOAT, 
	max_error FLOAT, 
	scratch_bytes BIGINT NOT NULL, 
	code_bytes BIGINT NOT NULL, 
	seed BIGINT NOT NULL, 
	round BIGINT NOT NULL, 
	build_seconds FLOAT NOT NULL, 
	measure_seconds FLOAT NOT NULL, 
	created_utc TEXT NOT NULL, 
	tool_version TEXT NOT NULL, 
	workload_name TEXT NOT NULL, 
	target TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	environment TEXT NOT NULL, 
	samples_ns TEXT NOT NULL, 
	trace TEXT NOT NULL, 
	CONSTRAINT one_record_per_candidate UNIQUE (workload, target_fingerprint, toolchain, codegen_version, board, candidate)
);
INSERT INTO "records" VALUES(1,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','8694ff758e31db8ecef363d4bfd657ea3a361da85c37d5ba32c7edec188e664d','ok',100.0,98.5,102.25,NULL,0,0,0,0,0.0,0.0,'2026-01-01T00:00:00.000000Z','0.1.0','conv2d_add_relu','host','','{"governor": "performance", "mhz": 2400.5, "temperature": null}','[98.5, 100.0, 102.25]','[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
INSERT INTO "records" VALUES(2,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','16aa25f1cbe5ef3383b3443d0dd957b6065d0a98a75175397863cf9b2696600b','ok',101.0,99.5,103.25,NULL,0,0,0,0,0.0,0.0,'2026-01-01T00:00:00.000000Z','0.1.0','conv2d_add_relu','host','','{"governor": "performance", "mhz": 2400.5, "temperature": null}','[99.5, 101.0, 103.25]','[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
INSERT INTO "records" VALUES(3,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','575105d89108eb38c8e1b583a588af9b4866e7c04dcf24a27d33dc9e8958bf70','ok',102.0,100.5,104.25,NULL,0,0,0,0,0.0,0.0,'2026-01-01T00:00:00.000000Z','0.1.0','conv2d_add_relu','host','','{"governor": "performance", "mhz": 2400.5, "temperature": null}','[100.5, 102.0, 104.25]','[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
INSERT INTO "records" VALUES(4,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','b29ec6d0d859e36aff5b5c5c5f706bb2dbc076bc4a734dfa0729c3c158fe8e78','crashed',NULL,NULL,NULL,NULL,0,0,0,0,0.0,0.0,'2026-01-01T00:00:00.000000Z','0.1.0','conv2d_add_relu','host','signal 11','{"governor": "performance", "mhz": 2400.5, "temperature": null}','[]','[[["GetSBlock",[],["conv2d"],["b0"]]],[]]');
CREATE TABLE start_origins (
	start_id BIGINT NOT NULL, 
	host TEXT NOT NULL, 
	run TEXT NOT NULL, 
	PRIMARY KEY (start_id)
);
INSERT INTO "start_origins" VALUES(1,'shelf-1','2026-01-01 m@b');
INSERT INTO "start_origins" VALUES(2,'shelf-1','2026-01-01 m@b');
INSERT INTO "start_origins" VALUES(3,'shelf-1','2026-01-01 m@b');
INSERT INTO "start_origins" VALUES(4,'shelf-1','');
CREATE TABLE starts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	workload TEXT NOT NULL, 
	target_fingerprint TEXT NOT NULL, 
	toolchain TEXT NOT NULL, 
	codegen_version BIGINT NOT NULL, 
	board TEXT NOT NULL, 
	candidate TEXT NOT NULL, 
	utc TEXT NOT NULL, 
	pid BIGINT NOT NULL
);
INSERT INTO "starts" VALUES(1,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','8694ff758e31db8ecef363d4bfd657ea3a361da85c37d5ba32c7edec188e664d','2026-11-25T08:23:57.620963Z',1851);
INSERT INTO "starts" VALUES(2,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','16aa25f1cbe5ef3383b3443d0dd957b6065d0a98a75175397863cf9b2696600b','2026-11-25T08:23:57.693419Z',1851);
INSERT INTO "starts" VALUES(3,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','575105d89108eb38c8e1b583a588af9b4866e7c04dcf24a27d33dc9e8958bf70','2026-11-25T08:23:57.724511Z',1851);
INSERT INTO "starts" VALUES(4,'44c812cf58da04ddc9ad60335078ae5afc248e7f0aa009f540637c93c0c8edb6','x86_64-avx512','gcc-12.2.0-ab12',3,'bench-1','b29ec6d0d859e36aff5b5c5c5f706bb2dbc076bc4a734dfa0729c3c158fe8e78','2026-11-25T08:23:57.774812Z',1851);
CREATE TABLE verdicts (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	night_cell_id BIGINT NOT NULL, 
	attempt INTEGER NOT NULL, 
	verdict TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	package TEXT NOT NULL, 
	facts TEXT NOT NULL, 
	utc TEXT NOT NULL, 
	UNIQUE (night_cell_id)
);
CREATE INDEX ix_starts_candidate ON starts (candidate);
CREATE INDEX ix_night_cells_night_id ON night_cells (night_id);
CREATE INDEX ix_night_attempts_night_cell_id ON night_attempts (night_cell_id);
CREATE INDEX ix_accepted_packages_cell ON accepted_packages (cell);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('starts',4);
INSERT INTO "sqlite_sequence" VALUES('records',4);
INSERT INTO "sqlite_sequence" VALUES('nights',1);
COMMIT;
