PRAGMA application_id = 1650615160;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE fits (
    num_answers INTEGER PRIMARY KEY,
    hyperparameters TEXT NOT NULL,
    fitted_at TEXT NOT NULL
);
INSERT INTO "fits" VALUES(6,'{"outputscale": [5.076143283533731], "lengthscale": [0.5387638316117976, 0.5366241329371445, 0.5400147616186121, 0.5402522116476649, 0.5405012398087305], "slope": [5.432967742402628]}','2026-11-17T10:05:37+00:00');
CREATE TABLE settings (content TEXT NOT NULL);
INSERT INTO "settings" VALUES('{"rule": "ucb-ald", "kernel": "additive", "seed": 3, "initial_trials": 6, "feedback": {"kind": "pass/fail", "guess_rate": 0.0, "lapse_rate": 0.0}, "parameters": [{"type": "real", "name": "gain", "low": 0.1, "high": 10.0, "scale": "log"}, {"type": "integer", "name": "taps", "low": 1, "high": 9, "scale": "linear"}, {"type": "categorical", "name": "window", "values": ["hann", "box", "flat"]}], "contexts": [{"name": "noise", "reference": 2.0, "levels": [0.0, 1.0, 1.5, 2.5, 4.0], "scale": "linear", "harder": "up"}], "hyperparameters": {}, "combinations": null, "inference": "expectation propagation"}');
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'answered', 'withdrawn')),
    outcome INTEGER CHECK (outcome IN (0, 1)),
    position INTEGER UNIQUE,  -- answers count from 1 in the order they came
    shown TEXT NOT NULL,
    chosen_by TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    closed_at TEXT,
    CHECK ((status = 'answered') = (outcome IS NOT NULL)),
    CHECK ((status = 'answered') = (position IS NOT NULL)),
    CHECK ((status = 'pending') = (closed_at IS NULL))
);
INSERT INTO "trials" VALUES(1,'answered',1,1,'{"context": {"noise": 0.0}, "sides": [{"gain": 3.64031, "taps": 9, "window": "box"}]}','quasi-random','2026-11-17T10:05:36+00:00','2026-11-17T10:05:36+00:00');
INSERT INTO "trials" VALUES(2,'answered',0,2,'{"context": {"noise": 2.5}, "sides": [{"gain": 0.150884, "taps": 3, "window": "hann"}]}','quasi-random','2026-11-17T10:05:36+00:00','2026-11-17T10:05:36+00:00');
INSERT INTO "trials" VALUES(3,'withdrawn',NULL,NULL,'{"context": {"noise": 4.0}, "sides": [{"gain": 2.38911, "taps": 5, "window": "hann"}]}','quasi-random','2026-11-17T10:05:36+00:00','2026-11-17T10:05:36+00:00');
INSERT INTO "trials" VALUES(4,'answered',0,3,'{"context": {"noise": 1.5}, "sides": [{"gain": 0.576612, "taps": 3, "window": "box"}]}','quasi-random','2026-11-17T10:05:36+00:00','2026-11-17T10:05:36+00:00');
INSERT INTO "trials" VALUES(5,'pending',NULL,NULL,'{"context": {"noise": 1.5}, "sides": [{"gain": 1.29934, "taps": 4, "window": "box"}]}','quasi-random','2026-11-17T10:05:36+00:00',NULL);
INSERT INTO "trials" VALUES(6,'answered',0,4,'{"context": {"noise": 4.0}, "sides": [{"gain": 0.55734, "taps": 8, "window": "hann"}]}','quasi-random','2026-11-17T10:05:36+00:00','2026-11-17T10:05:36+00:00');
INSERT INTO "trials" VALUES(7,'answered',0,5,'{"context": {"noise": 2.5}, "sides": [{"gain": 8.85104, "taps": 2, "window": "hann"}]}','quasi-random','2026-11-17T10:05:36+00:00','2026-11-17T10:05:36+00:00');
INSERT INTO "trials" VALUES(8,'answered',0,6,'{"context": {"noise": 1.0}, "sides": [{"gain": 0.206187, "taps": 6, "window": "flat"}]}','quasi-random','2026-11-17T10:05:36+00:00','2026-11-17T10:05:36+00:00');
INSERT INTO "trials" VALUES(9,'answered',0,7,'{"context": {"noise": 1.0}, "sides": [{"gain": 10.0, "taps": 9, "window": "box"}]}','ucb-ald','2026-11-17T10:05:37+00:00','2026-11-17T10:05:37+00:00');
COMMIT;
