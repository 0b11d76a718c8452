package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/registry"
)

// checkSelectors refuses a selector that learns from rewards for datasets that the trainer reads,
// because nobody would tell it any rewards.
func checkSelectors(r report, buffer *Buffer, data *Data) {
	catalog, ok := registry.Find("selector")
	if !ok {
		return
	}
	refuse := func(owner string, b *ExperienceBuffer) {
		name := b.DataSelector.SelectorType
		if _, learns := catalog.Default(name).(interface{ LearnsFromRewards() }); learns {
			r.fail(owner+".data_selector.selector_type", name+" learns from rewards, and rows of training data have none",
				"use shuffle or offline_easy2hard")
		}
	}
	refuse("buffer.trainer_input.experience_buffer", buffer.TrainerInput.ExperienceBuffer)
	for _, a := range slices.Concat(data.Auxiliary, data.Inputs) {
		refuse(a.Key, &a.ExperienceBuffer)
	}
}

// checkFormat checks the format keys of every buffer against the rows that it holds.
func checkFormat(r report, algorithm *Algorithm, buffer *Buffer, data *Data, method *Method) {
	own := NamedBuffer{ExperienceBuffer: *buffer.TrainerInput.ExperienceBuffer, Key: "buffer.trainer_input.experience_buffer"}
	for _, b := range append(slices.Clone(data.Measured), own) {
		checkFormatOf(r, algorithm, method, b)
	}
	for _, a := range slices.Concat(data.Auxiliary, data.Inputs) {
		checkTemplates(r, a.Key, &a.Format, true)
		if a.Format.Packing {
			r.fail(a.Key+".format.packing", "joins texts, but this buffer holds "+a.SchemaType+" rows, each a sequence of its own", "remove it")
		}
	}
	for _, t := range data.Tasksets {
		checkTemplates(r, t.Key, &t.Format, false)
		if key := t.Key + ".format."; t.Format.PromptTemplate != "" && r.IsSet(key+"messages_key") && !r.IsSet(key+"prompt_key") {
			r.fail(key+"prompt_template", "writes a prompt, but messages_key names the chat that is one", "use one of them")
		}
		if t.Format.Packing || t.Format.Truncate {
			r.fail(t.Key+".format", "packing and truncate are for training data, not for tasks", "remove them")
		}
	}
}

// checkTemplates checks the templates of a section `format`. The prompt of training data is a text only
// with prompt_type plaintext.
func checkTemplates(r report, owner string, f *Format, trains bool) {
	key := owner + ".format."
	if err := f.Validate(); err != nil {
		name, message, _ := strings.Cut(err.Error(), ": ")
		r.fail(key+name, message, "")
	}
	if trains && f.PromptTemplate != "" && f.PromptType != "plaintext" {
		r.fail(key+"prompt_template", "is for prompts that are text, but prompt_type is "+f.PromptType, "set prompt_type: plaintext")
	}
	if f.SystemTemplate != "" && f.SystemPromptKey+f.SystemPrompt != "" {
		r.fail(key+"system_template", "system_prompt or system_prompt_key is set as well", "use one of them")
	}
}

func checkFormatOf(r report, algorithm *Algorithm, method *Method, b NamedBuffer) {
	checkTemplates(r, b.Key, &b.Format, true)
	checkMargins(r, algorithm, method, b)
	f, key, reads := &b.Format, b.Key+".format.", fmt.Sprintf("%s reads schema %s", algorithm.AlgorithmType, b.SchemaType)
	if b.SchemaType == "cpt" && f.PromptType != "plaintext" {
		r.fail(key+"prompt_type", fmt.Sprintf("is %s, but %s, which is plain text", f.PromptType, reads), "set it to plaintext, or leave it out")
	}
	if f.Packing && b.SchemaType != "cpt" {
		r.fail(key+"packing", "joins texts, but "+reads+", in which every row is a sequence of its own", "remove it")
	}
	if f.Packing && f.Truncate {
		r.fail(key+"truncate", "packed texts are never truncated: a text longer than a sequence continues in the next", "remove it")
	}
	if f.EnableConcatenatedMultiTurn && b.SchemaType != "sft" {
		r.fail(key+"enable_concatenated_multi_turn", "is for schema sft, but "+reads, "remove it")
	}
}

// checkRecording refuses an unknown file form for rollouts, and a database without a query for the rows
// of one earlier run.
func checkRecording(r report, buffer *Buffer, w Work) {
	b := buffer.TrainerInput.ExperienceBuffer
	if w.mode == "explore" && b.StorageType == "file" && b.Path != "" && experience.Form(b.Path) == "" {
		r.fail(storeKey+".path", b.Path+" does not name a file form of experiences",
			"let the path end in one of "+strings.Join(experience.Forms, " ")+
				"; output_save_path may be a database's URL")
	}
	if w.Recorded && dburl.IsURL(b.Path) && b.SubsetName == "" {
		r.fail(storeKey+".subset_name", "a database may hold the experiences of many runs",
			"write SELECT experience FROM trinity_archive WHERE archive LIKE 'project/group/name/output-%' ORDER BY step, id")
	}
}

// ExperienceFile returns where mode explore with storage_type file writes rollouts.
func (b *Buffer) ExperienceFile() string {
	return cmp.Or(b.TrainerInput.ExperienceBuffer.Path, filepath.Join(b.CacheDir, "experience_buffer.jsonl"))
}

// Leaves reports whether this stage writes experiences at path for a later stage to read.
func (s *Settled) Leaves(path string) bool {
	var files []string
	if s.Mode == "explore" && s.Buffer.TrainerInput.ExperienceBuffer.StorageType == "file" {
		files = append(files, s.Buffer.ExperienceFile())
	}
	if p := s.DataProcessor.ExperiencePipeline; s.Explores {
		files = append(files, p.OutputSavePath)
		if p.SaveInput {
			files = append(files, s.DataProcessor.InputCopy(&s.Buffer))
		}
	}
	return path != "" && slices.ContainsFunc(files, func(f string) bool { return f != "" && filepath.Clean(f) == filepath.Clean(path) })
}

// checkMargins refuses the key of a margin that no loss reads.
func checkMargins(r report, algorithm *Algorithm, method *Method, b NamedBuffer) {
	if b.Format.MarginKey != "" && !method.Scores {
		r.fail(b.Key+".format.margin_key",
			fmt.Sprintf("is for algorithms that train a reward model, and %s has no margins", algorithm.AlgorithmType), "remove it")
	}
}
