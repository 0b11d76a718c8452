package config

import (
	"strings"

	"github.com/trinity-go/trinity/experience/archive"
)

// Recorded reports whether the trainer reads experiences that an earlier run has kept, as rows of a dataset.
func (c *Config) Recorded() bool {
	_, known := c.parts()
	return known && c.Mode == "train" && !c.offline() && c.Buffer.TrainerInput.ExperienceBuffer.StorageType == "file"
}

// recording refuses a file of rollouts of no form.
func (r *rules) recording() {
	b := r.Buffer.TrainerInput.ExperienceBuffer
	if r.Mode == "explore" && b.StorageType == "file" && b.Path != "" && !archive.IsName(b.Path) {
		r.fail(storeKey+".path", b.Path+" is not a form of experiences", "let the path end in one of "+strings.Join(archive.Forms, " "))
	}
}

// readsDataset reports whether the trainer reads a dataset, and no explorer puts anything.
func (c *Config) readsDataset() bool { return c.offline() || c.Recorded() }
