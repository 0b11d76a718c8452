package config

// Recorded reports whether the trainer reads experiences that an earlier run has kept, as rows of a dataset.
func (c *Config) Recorded() bool {
	return c.Mode == "train" && !c.offline() && c.Buffer.TrainerInput.ExperienceBuffer.StorageType == "file"
}

// readsDataset reports whether the trainer reads a dataset, and no explorer puts anything.
func (c *Config) readsDataset() bool { return c.offline() || c.Recorded() }
