package buffer

// sqlSchema are the versions of the tables of an SQL buffer, see database.Migrate.
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
}}
