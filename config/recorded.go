package config

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/experience/archive"
)

// recording refuses an unknown file form for rollouts, and a database without a query for the rows
// of one earlier run.
func (r *rules) recording() {
	b := r.Buffer.TrainerInput.ExperienceBuffer
	if r.Mode == "explore" && b.StorageType == "file" && b.Path != "" && archive.Form(b.Path) == "" {
		r.fail(storeKey+".path", b.Path+" does not name a file form of experiences",
			"let the path end in one of "+strings.Join(archive.Forms, " ")+
				"; output_save_path may be a database's URL")
	}
	if r.Recorded && database.IsURL(b.Path) && b.SubsetName == "" {
		r.fail(storeKey+".subset_name", "a database may hold the experiences of many runs",
			"write SELECT experience FROM trinity_archive WHERE archive LIKE 'project/group/name/output-%' ORDER BY step, id")
	}
}

// ExperienceFile returns where mode explore with storage_type file writes rollouts.
func (s *Settled) ExperienceFile() string {
	return cmp.Or(s.Buffer.TrainerInput.ExperienceBuffer.Path, filepath.Join(s.Buffer.CacheDir, "experience_buffer.jsonl"))
}

// Leaves reports whether this stage writes experiences at path for a later stage to read.
func (s *Settled) Leaves(path string) bool {
	var files []string
	if s.Mode == "explore" && s.Buffer.TrainerInput.ExperienceBuffer.StorageType == "file" {
		files = append(files, s.ExperienceFile())
	}
	if p := s.DataProcessor.ExperiencePipeline; s.Explores {
		files = append(files, p.OutputSavePath)
		if p.SaveInput {
			files = append(files, s.InputCopy())
		}
	}
	return path != "" && slices.ContainsFunc(files, func(f string) bool { return f != "" && filepath.Clean(f) == filepath.Clean(path) })
}
