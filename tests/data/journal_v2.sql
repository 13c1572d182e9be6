PRAGMA application_id = 1650615160;
PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE environments (
    id INTEGER PRIMARY KEY,
    user TEXT NOT NULL,
    host TEXT NOT NULL,
    package TEXT NOT NULL,
    torch TEXT NOT NULL,
    python TEXT NOT NULL,
    platform TEXT NOT NULL,
    checksum TEXT NOT NULL
);
INSERT INTO "environments" VALUES(1,'someone','somewhere','0.1.0','2','3.11','Linux','e66a7e57c1ad30fa291243ec8e5327ba');
CREATE TABLE events (
    number INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    trial INTEGER,
    old TEXT,
    new TEXT,
    environment INTEGER NOT NULL,
    checksum TEXT NOT NULL
);
INSERT INTO "events" VALUES(1,'2026-11-18T09:41:35.080+00:00','created',NULL,NULL,'{"subject": "P07"}',1,'c54c0594a95ccde264fc196b6d5c479a');
INSERT INTO "events" VALUES(2,'2026-11-18T09:41:35.165+00:00','asked',1,NULL,NULL,1,'eb1e60b50e961b893ca11be4de444b64');
INSERT INTO "events" VALUES(3,'2026-11-18T09:41:35.220+00:00','answered',1,'{"status": "pending", "outcome": null, "closed_at": null, "position": null, "reaction_time": null, "extra": {}}','{"status": "answered", "outcome": 2, "closed_at": "2026-11-18T09:41:35.219+00:00", "position": 1, "reaction_time": 0.5, "extra": {"noise": 0}}',1,'07edb17d3b495f291127a2014b99c886');
INSERT INTO "events" VALUES(4,'2026-11-18T09:41:35.323+00:00','asked',2,NULL,NULL,1,'3e7e7d2053735ac00a90cb6e80086118');
INSERT INTO "events" VALUES(5,'2026-11-18T09:41:35.371+00:00','answered',2,'{"status": "pending", "outcome": null, "closed_at": null, "position": null, "reaction_time": null, "extra": {}}','{"status": "answered", "outcome": 0, "closed_at": "2026-11-18T09:41:35.371+00:00", "position": 2, "reaction_time": 0.5, "extra": {"noise": 1}}',1,'16ad54b7ec189bb5eebc7dc6258e27d9');
INSERT INTO "events" VALUES(6,'2026-11-18T09:41:35.471+00:00','asked',3,NULL,NULL,1,'a1056e4e5ea930da44bb130365c0cb4f');
INSERT INTO "events" VALUES(7,'2026-11-18T09:41:35.523+00:00','answered',3,'{"status": "pending", "outcome": null, "closed_at": null, "position": null, "reaction_time": null, "extra": {}}','{"status": "answered", "outcome": 1, "closed_at": "2026-11-18T09:41:35.523+00:00", "position": 3, "reaction_time": 0.5, "extra": {"noise": 2}}',1,'54f2de16dcbf9d9d15c2fb0754533dd4');
INSERT INTO "events" VALUES(8,'2026-11-18T09:41:35.631+00:00','asked',4,NULL,NULL,1,'cb96ba0bf51e6b789ebca181205d8967');
INSERT INTO "events" VALUES(9,'2026-11-18T09:41:35.746+00:00','answered',4,'{"status": "pending", "outcome": null, "closed_at": null, "position": null, "reaction_time": null, "extra": {}}','{"status": "answered", "outcome": 1, "closed_at": "2026-11-18T09:41:35.745+00:00", "position": 4, "reaction_time": 0.5, "extra": {"noise": 3}}',1,'3ad824d7c3b3ae899f35a6068488b8ae');
INSERT INTO "events" VALUES(10,'2026-11-18T09:41:35.865+00:00','asked',5,NULL,NULL,1,'a1811b379c5fd2add634855e096420e7');
INSERT INTO "events" VALUES(11,'2026-11-18T09:41:35.895+00:00','answered',5,'{"status": "pending", "outcome": null, "closed_at": null, "position": null, "reaction_time": null, "extra": {}}','{"status": "answered", "outcome": 1, "closed_at": "2026-11-18T09:41:35.895+00:00", "position": 5, "reaction_time": 0.5, "extra": {"noise": 4}}',1,'d7a6d13b2f53edd83e970e0c4071d4f6');
INSERT INTO "events" VALUES(12,'2026-11-18T09:41:35.946+00:00','asked',6,NULL,NULL,1,'a5b299badd9d080df18cf6f1bbcf32bd');
INSERT INTO "events" VALUES(13,'2026-11-18T09:41:35.964+00:00','answered',6,'{"status": "pending", "outcome": null, "closed_at": null, "position": null, "reaction_time": null, "extra": {}}','{"status": "answered", "outcome": 1, "closed_at": "2026-11-18T09:41:35.964+00:00", "position": 6, "reaction_time": 0.5, "extra": {"noise": 5}}',1,'66b9c83c15aa79c5337dceb472229668');
INSERT INTO "events" VALUES(14,'2026-11-18T09:41:35.976+00:00','corrected',2,'{"outcome": 0}','{"outcome": 1}',1,'e23a777668fa862cab1bc1b546edabe0');
INSERT INTO "events" VALUES(15,'2026-11-18T09:41:35.985+00:00','undone',4,'{"outcome": 1, "position": 4, "status": "answered", "closed_at": "2026-11-18T09:41:35.745+00:00", "reaction_time": 0.5, "extra": {"noise": 3}}','{"outcome": null, "position": null, "status": "pending", "closed_at": null, "reaction_time": null, "extra": {}}',1,'74bc2e5c0aa486cb893f417a64d25433');
INSERT INTO "events" VALUES(16,'2026-11-18T09:41:35.988+00:00','answered',4,'{"status": "pending", "outcome": null, "closed_at": null, "position": null, "rater": null, "shown": {"context": {"size": 0.62392}, "sides": [{"gain": 0.35}]}, "asked": null}','{"status": "answered", "outcome": 0, "closed_at": "2026-11-18T09:41:35.988+00:00", "position": 7, "rater": "Ann", "shown": {"context": {"size": 0.62392}, "sides": [{"gain": 0.33}]}, "asked": {"context": {"size": 0.62392}, "sides": [{"gain": 0.35}]}}',1,'237a5002400603bb0460269b80e115e8');
INSERT INTO "events" VALUES(17,'2026-11-18T09:41:42.578+00:00','asked',7,NULL,NULL,1,'3a65e4c1d61600481e2b1ee94013a1a1');
INSERT INTO "events" VALUES(18,'2026-11-18T09:41:42.581+00:00','withdrawn',7,'{"status": "pending", "closed_at": null}','{"status": "withdrawn", "closed_at": "2026-11-18T09:41:42.581+00:00"}',1,'d1a489d226d521ba7024a4c85a8e9b99');
INSERT INTO "events" VALUES(19,'2026-11-18T09:41:42.619+00:00','excluded',1,'{"used": true}','{"used": false}',1,'6b1ae0cdad0e3f5b4b0a5520add5a9d6');
INSERT INTO "events" VALUES(20,'2026-11-18T09:41:42.652+00:00','added',8,NULL,NULL,1,'98380967d32e5663dfe333f9232c4c15');
INSERT INTO "events" VALUES(21,'2026-11-18T09:41:43.326+00:00','asked',9,NULL,NULL,1,'9817d4ea14d4013635041340ac2f117e');
INSERT INTO "events" VALUES(22,'2026-11-18T09:41:43.340+00:00','answered',9,'{"status": "pending", "outcome": null, "closed_at": null, "position": null}','{"status": "answered", "outcome": 1, "closed_at": "2026-11-18T09:41:43.340+00:00", "position": 9}',1,'20e1a720abe0ad168b2fb5a0cda54f68');
INSERT INTO "events" VALUES(23,'2026-11-18T09:41:44.343+00:00','asked',10,NULL,NULL,1,'c01d5d0d45de88d2f747f6521d1060c2');
INSERT INTO "events" VALUES(24,'2026-11-18T09:41:44.387+00:00','answered',10,'{"status": "pending", "outcome": null, "closed_at": null, "position": null}','{"status": "answered", "outcome": 0, "closed_at": "2026-11-18T09:41:44.387+00:00", "position": 10}',1,'e62a0aa4d62b861195767a88e6710257');
INSERT INTO "events" VALUES(25,'2026-11-18T09:41:45.275+00:00','asked',11,NULL,NULL,1,'9f0d22235a25224fec3a7dc43bfe88e9');
INSERT INTO "events" VALUES(26,'2026-11-18T09:41:45.321+00:00','answered',11,'{"status": "pending", "outcome": null, "closed_at": null, "position": null}','{"status": "answered", "outcome": 1, "closed_at": "2026-11-18T09:41:45.321+00:00", "position": 11}',1,'dd1845ee71c67d4193d9f0699ff5afa5');
INSERT INTO "events" VALUES(27,'2026-11-18T09:41:46.222+00:00','asked',12,NULL,NULL,1,'f358702de8519def9eb557cc843494bc');
INSERT INTO "events" VALUES(28,'2026-11-18T09:41:46.248+00:00','answered',12,'{"status": "pending", "outcome": null, "closed_at": null, "position": null}','{"status": "answered", "outcome": 1, "closed_at": "2026-11-18T09:41:46.248+00:00", "position": 12}',1,'68c4d0107061e6e0e988ec0de17b500a');
CREATE TABLE fits (
    num_answers INTEGER PRIMARY KEY,
    hyperparameters TEXT NOT NULL,
    fitted_at TEXT NOT NULL,
    checksum TEXT NOT NULL
);
INSERT INTO "fits" VALUES(5,'{"outputscale": [6.180129529789425], "lengthscale": [0.1836459552203618], "slope": [3.064456914570363]}','2026-11-18T09:41:42.695+00:00','fc7672788d484ca1db710ea8ae928072');
INSERT INTO "fits" VALUES(6,'{"outputscale": [5.973860187189348], "lengthscale": [0.19381964203315907], "slope": [2.919939746045574]}','2026-11-18T09:41:43.586+00:00','b7f17712272d7663960ab47dc3f7962c');
INSERT INTO "fits" VALUES(7,'{"outputscale": [4.872821234843726], "lengthscale": [0.23511294181932507], "slope": [2.5077740795786663]}','2026-11-18T09:41:44.630+00:00','7b004686b781694f92fd3a524a496472');
INSERT INTO "fits" VALUES(8,'{"outputscale": [5.323306642085665], "lengthscale": [0.23597812609067884], "slope": [2.6080282953878147]}','2026-11-18T09:41:45.512+00:00','767bd658fa8263168ea7b7726830eaea');
CREATE TABLE metadata (content TEXT NOT NULL, checksum TEXT NOT NULL);
INSERT INTO "metadata" VALUES('{"subject": "P07"}','7b328e7b4078f8594f3e5f8fab8ee41d');
CREATE TABLE seal (digest TEXT NOT NULL);
INSERT INTO "seal" VALUES('e95677f25f8843934fde011a2dd63699');
CREATE TABLE settings (content TEXT NOT NULL, checksum TEXT NOT NULL);
INSERT INTO "settings" VALUES('{"rule": "ucb-ald", "kernel": "additive", "seed": 3, "initial_trials": 5, "feedback": {"kind": "pass/fail", "infeasible": "unpleasant", "guess_rate": 0.0, "lapse_rate": 0.0}, "parameters": [{"type": "real", "name": "gain", "low": 0, "high": 1, "scale": "linear", "step": 0.05}], "contexts": [{"name": "size", "reference": 0.5, "low": 0, "high": 1, "scale": "linear", "harder": "down"}], "hyperparameters": {}, "combinations": null, "inference": "expectation propagation", "priors": "pooled", "stop": null, "goal": null, "catch_rate": 0.0, "catch": {}, "easy_rate": 0.0, "kept_out": ["catch"], "drift": null}','f7b25abcc01e87325c156e6430a179c1');
CREATE TABLE trials (
    id INTEGER PRIMARY KEY,
    status TEXT NOT NULL CHECK (status IN ('pending', 'answered', 'withdrawn')),
    outcome INTEGER CHECK (outcome >= 0),
    position INTEGER,  -- answers count from 1 in the order they came
    used INTEGER NOT NULL CHECK (used IN (0, 1)),  -- whether the model learns from it
    shown TEXT NOT NULL,
    asked TEXT,  -- what was to be shown, if that was something else
    chosen_by TEXT NOT NULL,
    rater TEXT,
    reaction_time REAL,  -- in seconds
    extra TEXT NOT NULL,
    asked_at TEXT NOT NULL,
    closed_at TEXT,
    revision INTEGER NOT NULL,  -- the number of the event that changed it last
    checksum TEXT NOT NULL,
    CHECK ((status = 'answered') = (outcome IS NOT NULL)),
    CHECK ((status = 'answered') = (position IS NOT NULL)),
    CHECK ((status = 'pending') = (closed_at IS NULL))
);
INSERT INTO "trials" VALUES(1,'answered',2,1,0,'{"context": {"size": 0.95467}, "sides": [{"gain": 0.8}]}',NULL,'quasi-random',NULL,0.5,'{"noise": 0}','2026-11-18T09:41:35.164+00:00','2026-11-18T09:41:35.219+00:00',19,'3a628c40eb0e8e58f80cd0590bb4167c');
INSERT INTO "trials" VALUES(2,'answered',1,2,1,'{"context": {"size": 0.18314}, "sides": [{"gain": 0.15}]}',NULL,'quasi-random',NULL,0.5,'{"noise": 1}','2026-11-18T09:41:35.323+00:00','2026-11-18T09:41:35.371+00:00',14,'4cb28c685bd1c968eede241d37f80385');
INSERT INTO "trials" VALUES(3,'answered',1,3,1,'{"context": {"size": 0.27049}, "sides": [{"gain": 0.7}]}',NULL,'quasi-random',NULL,0.5,'{"noise": 2}','2026-11-18T09:41:35.471+00:00','2026-11-18T09:41:35.523+00:00',7,'3547b37a85fe84f2e97367a833263526');
INSERT INTO "trials" VALUES(4,'answered',0,7,1,'{"context": {"size": 0.62392}, "sides": [{"gain": 0.33}]}','{"context": {"size": 0.62392}, "sides": [{"gain": 0.35}]}','quasi-random','Ann',NULL,'{}','2026-11-18T09:41:35.631+00:00','2026-11-18T09:41:35.988+00:00',16,'d662e4c2a0470b5c3d7f88cb06a71a55');
INSERT INTO "trials" VALUES(5,'answered',1,5,1,'{"context": {"size": 0.65529}, "sides": [{"gain": 0.55}]}',NULL,'quasi-random',NULL,0.5,'{"noise": 4}','2026-11-18T09:41:35.865+00:00','2026-11-18T09:41:35.895+00:00',11,'e020836c382ceb29fc6e9e116f753610');
INSERT INTO "trials" VALUES(6,'answered',1,6,1,'{"context": {"size": 0.48935}, "sides": [{"gain": 0.4}]}',NULL,'quasi-random',NULL,0.5,'{"noise": 5}','2026-11-18T09:41:35.946+00:00','2026-11-18T09:41:35.964+00:00',13,'c4155c19e0b20be043ff0f99009e90f4');
INSERT INTO "trials" VALUES(7,'withdrawn',NULL,NULL,1,'{"context": {"size": 0.0}, "sides": [{"gain": 1.0}]}',NULL,'ucb-ald',NULL,NULL,'{}','2026-11-18T09:41:42.578+00:00','2026-11-18T09:41:42.581+00:00',18,'5c385bc64e899320a8112b74206da4f2');
INSERT INTO "trials" VALUES(8,'answered',0,8,0,'{"context": {"size": 0.4}, "sides": [{"gain": 0.2}]}',NULL,'added',NULL,NULL,'{}','2026-11-18T09:41:42.652+00:00','2026-11-18T09:41:42.652+00:00',20,'35a140eaeb0dffa18115e54c57f1692c');
INSERT INTO "trials" VALUES(9,'answered',1,9,1,'{"context": {"size": 0.0}, "sides": [{"gain": 1.0}]}',NULL,'ucb-ald',NULL,NULL,'{}','2026-11-18T09:41:43.326+00:00','2026-11-18T09:41:43.340+00:00',22,'3636ec71c87fb847dc2a23c68ca83389');
INSERT INTO "trials" VALUES(10,'answered',0,10,1,'{"context": {"size": 1.0}, "sides": [{"gain": 0.0}]}',NULL,'ucb-ald',NULL,NULL,'{}','2026-11-18T09:41:44.343+00:00','2026-11-18T09:41:44.387+00:00',24,'082055a405bf8b201334fa38134ea4ce');
INSERT INTO "trials" VALUES(11,'answered',1,11,1,'{"context": {"size": 1.0}, "sides": [{"gain": 1.0}]}',NULL,'ucb-ald',NULL,NULL,'{}','2026-11-18T09:41:45.275+00:00','2026-11-18T09:41:45.321+00:00',26,'1d21336bbd25cd6c747886b43b78fb85');
INSERT INTO "trials" VALUES(12,'answered',1,12,1,'{"context": {"size": 1.0}, "sides": [{"gain": 0.8}]}',NULL,'ucb-ald',NULL,NULL,'{}','2026-11-18T09:41:46.222+00:00','2026-11-18T09:41:46.248+00:00',28,'64807766be7d250c1479737de73ed6dd');
COMMIT;
