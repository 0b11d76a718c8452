package buffer

// sqlSchema lists the versions of the tables of an SQL buffer, see database.Migrate.
var sqlSchema = [][]string{{
	`CREATE TABLE IF NOT EXISTS trinity_buffers (
		name VARCHAR(255) PRIMARY KEY,
		put BIGINT NOT NULL DEFAULT 0,            -- experiences, in all
		put_rollouts BIGINT NOT NULL DEFAULT 0,
		taken BIGINT NOT NULL DEFAULT 0,          -- experiences that the trainer has
		taken_rollouts BIGINT NOT NULL DEFAULT 0,
		trimmed BIGINT NOT NULL DEFAULT 0,        -- experiences that no checkpoint needs: their rows have only what people read
		trainer VARCHAR(64) NOT NULL DEFAULT '',  -- the process that may take
		closed INT NOT NULL DEFAULT 0             -- the trainer has ended
	){table}`,
	`CREATE TABLE IF NOT EXISTS trinity_explorers (
		buffer VARCHAR(255) NOT NULL,
		name VARCHAR(255) NOT NULL,
		session VARCHAR(64) NOT NULL DEFAULT '',  -- the process that may put
		delivery BIGINT NOT NULL DEFAULT 0,       -- number of the last one
		state {text},                             -- of the explorer, after it
		paused BIGINT NOT NULL DEFAULT 0,         -- version that it waits for
		closed INT NOT NULL DEFAULT 0,            -- it puts nothing more
		PRIMARY KEY (buffer, name)
	){table}`,
	`CREATE TABLE IF NOT EXISTS trinity_experiences (
		buffer VARCHAR(255) NOT NULL,
		number BIGINT NOT NULL,                   -- 1, 2, 3 … in the order in which they are taken
		rollout BIGINT NOT NULL,                  -- the number of its rollout
		explorer VARCHAR(255) NOT NULL,
		delivery BIGINT NOT NULL,
		needs BIGINT NOT NULL,                    -- version that the explorer waited for before
		step BIGINT NOT NULL,
		task {text} NOT NULL,
		run INT NOT NULL,
		turn INT NOT NULL,
		version BIGINT NOT NULL,                  -- the newest that sampled it
		reward DOUBLE PRECISION,                  -- NULL where it has none
		tokens INT NOT NULL,
		prompt {text} NOT NULL,
		response {text} NOT NULL,
		created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
		experience {blob},                        -- all else, and text that prompt and response have not exactly, in the form of package experience
		PRIMARY KEY (buffer, number)
	){table}`,
}, {
	// From this version on experience has no text that prompt and response have.
}, {
	// From this version on the process of the trainer alone writes, and the tables are a log of
	// deliveries. Rows of earlier runs stay for people.
	`DROP TABLE IF EXISTS trinity_explorers`,
	`DROP TABLE IF EXISTS trinity_buffers`,
	`CREATE TABLE trinity_buffers (
		name VARCHAR(255) PRIMARY KEY,
		writer VARCHAR(64) NOT NULL DEFAULT '',   -- the process that may write
		records BIGINT NOT NULL DEFAULT 0,        -- deliveries, in all
		experiences BIGINT NOT NULL DEFAULT 0,    -- in all
		rollouts BIGINT NOT NULL DEFAULT 0,       -- in all
		trimmed BIGINT NOT NULL DEFAULT 0         -- records before this one are needed by no checkpoint
	){table}`,
	`CREATE TABLE IF NOT EXISTS trinity_deliveries (
		buffer VARCHAR(255) NOT NULL,
		record BIGINT NOT NULL,                   -- 0, 1, 2 … in the order in which they were put
		explorer VARCHAR(255) NOT NULL,
		delivery BIGINT NOT NULL,                 -- number among those of the explorer, from 1
		needs BIGINT NOT NULL,                    -- version that the explorer waited for before
		state {text},                             -- of the explorer, after it
		rollouts BIGINT NOT NULL,
		first BIGINT NOT NULL,                    -- number of its first experience, or of the next one if it has none
		sizes {text} NOT NULL,                    -- numbers of experiences of its groups, a JSON list
		created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
		PRIMARY KEY (buffer, record)
	){table}`,
}}
