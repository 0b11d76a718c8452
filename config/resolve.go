package config

import "path/filepath"

// check completes the configuration and reports what is wrong with it.
func (c *Config) check() Errors {
	c.resolve()
	return nil
}

// resolve fills in what follows from other keys.
func (c *Config) resolve() {
	c.CheckpointJobDir = filepath.Join(c.CheckpointRootDir, c.Project, c.Group, c.Name)
	c.Buffer.CacheDir = filepath.Join(c.CheckpointJobDir, "buffer")
	c.Monitor.CacheDir = filepath.Join(c.CheckpointJobDir, "monitor")
	c.Log.SaveDir = filepath.Join(c.CheckpointJobDir, "log")
}

// Pos returns where a dotted key is written; for a key that is left out, where the nearest section above it is.
func (c *Config) Pos(key string) Position {
	for k := key; k != ""; k = parent(k) {
		if p, ok := c.source.positions[k]; ok {
			return p
		}
	}
	return Position{File: c.source.file, Line: 1, Col: 1}
}

// IsSet reports whether the file or the command line gives the key.
func (c *Config) IsSet(key string) bool {
	_, ok := c.source.positions[key]
	return ok
}

func parent(key string) string {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '.' {
			return key[:i]
		}
	}
	return ""
}
