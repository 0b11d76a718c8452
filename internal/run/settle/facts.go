package settle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/run/refine"
	"github.com/trinity-go/trinity/internal/serve/fleet"
	"github.com/trinity-go/trinity/model"
)

// Facts looks up what a plan needs: the sizes of local models and datasets, and this machine's
// limits. It downloads and writes nothing. It lists the models and datasets that a run would
// download, and those that are missing.
func Facts(settled *config.Settled) (config.Facts, error) {
	here := place.Machine()
	f := config.Facts{
		Machine: config.Machine{Cores: runtime.GOMAXPROCS(0), Memory: int64(here.Available), Disk: int64(here.Disk)},
		Rows:    map[string]int{}, Fetch: map[string]string{}, Missing: map[string]string{},
	}
	s, err := Resolve(settled)
	if err != nil {
		return f, err
	}
	if err := s.LookUp(&f); err != nil {
		return f, err
	}
	f.Chat, f.Programs = s.chatFacts(), s.programFacts()
	forecast, err := s.addModelFacts(&f)
	if err != nil {
		return f, err
	}
	makes, err := refine.TaskPipelineOf(s.Settled)
	if err != nil {
		return f, err
	}
	if f.TaskPipeline, err = makes.Describe(); err != nil {
		return f, err
	}
	read := feed.Datasets(s.Settled, makes.Pending())
	with, err := s.Provenance(read)
	if err != nil {
		return f, err
	}
	if f.Changed, err = s.Changes(with, !s.IsStage()); err != nil {
		return f, err
	}
	own := map[string]int{} // rows that this explorer reads
	for _, d := range read {
		path, onHub := feed.Local(d.Path, true)
		if path == "" {
			absent(&f, d.Key+".path", d.Path, onHub)
			continue
		}
		rows, err := feed.OpenRows(context.Background(), path, d.Options)
		if err != nil {
			return f, s.At(d.Key+".path", err.Error(), "")
		}
		f.Rows[d.Key], own[d.Key] = rows.Len(), feed.ShareOf(&s.Explorer, rows).Len()
		for i := range s.Tasksets {
			if t := &s.Tasksets[i]; t.Key == d.Key {
				if err := t.Check(rows); err != nil {
					return f, s.At(d.Key+".path", fmt.Sprintf("taskset %s: %v", t.Name, err), "")
				}
			}
		}
	}
	if err := feed.CheckQueues(s.Settled, s.Tasksets, &f); err != nil {
		return f, err
	}
	if err := feed.CheckPacks(s.Settled, s.Tasksets, own); err != nil {
		return f, err
	}
	return f, s.addTime(forecast, &f)
}

// Absent returns only which models and datasets of a stage are not on this machine. It opens none.
func Absent(settled *config.Settled) (config.Facts, error) {
	f := config.Facts{Fetch: map[string]string{}, Missing: map[string]string{}}
	s, err := Resolve(settled)
	if err != nil {
		return f, err
	}
	makes, err := refine.TaskPipelineOf(s.Settled)
	if err = errors.Join(err, s.locate(func(name, key string) (string, error) {
		_, err := s.lookUp(&f, name, key)
		return "", err
	})); err != nil {
		return f, err
	}
	for _, d := range feed.Datasets(s.Settled, makes.Pending()) {
		if path, onHub := feed.Local(d.Path, true); path == "" {
			absent(&f, d.Key+".path", d.Path, onHub)
		}
	}
	return f, nil
}

// addTime adds to f how long the steps take, if the data is on this machine and the engine knows its speed.
func (s *Stage) addTime(forecast *place.Forecast, f *config.Facts) (err error) {
	if forecast == nil || s.Text == nil || len(f.Missing) > 0 || len(f.Fetch) > 0 || f.DoesNotFit != "" || !s.Trains && !s.Explores ||
		!forecast.TellsSpeed(f) {
		return nil
	}
	of := place.Tokens{Trained: f.Model.Trained}
	for i := range s.Tasksets {
		if t := &s.Tasksets[i]; t.Eval {
			of.Evaluated += f.Rows[t.Key] * max(1, t.Template.GroupSize)
		}
	}
	data := s.Reader(func(string) {})
	if of.Prompt, of.Response, of.Lengths, err = data.Lengths(f); err == nil {
		f.Time, err = forecast.Time(of)
	}
	return err
}

// addModelFacts adds to f the size of the model, if it is on this machine, and the memory that the
// run needs. The forecast is nil if a model of the stage is not here.
func (s *Stage) addModelFacts(f *config.Facts) (forecast *place.Forecast, err error) {
	if s.ModelPath == "" {
		return nil, addFactsOfConfig(s, f)
	}
	m, err := model.ReadConfig(s.ModelPath)
	if err != nil {
		return nil, fmt.Errorf("model.model_path: %w", err)
	}
	if s.Critic == nil || s.CriticPath != "" {
		if forecast, err = s.forecast(s.Trains, s.Samples, int64(place.Machine().Available)); err != nil {
			return nil, err
		}
		if f.Memory = forecast.Memory; len(f.Memory) > 0 {
			if f.DoesNotFit, err = forecast.DoesNotFit(); err != nil {
				return nil, err
			}
			if f.Choices, err = forecast.Choices(); err != nil {
				return nil, err
			}
		}
	}
	f.Model, err = modelFacts(m, s.Model.LoraConfigs)
	return forecast, err
}

// addFactsOfConfig adds what follows from the config.json of a model whose weights are not on this machine yet,
// if the hub's cache has that file. The embedded engine's memory also depends on the weights' file.
func addFactsOfConfig(s *Stage, f *config.Facts) error {
	dir, _ := hub.Cached(s.Model.ModelPath)
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err != nil || dir == "" {
		return nil
	}
	of := *s
	if of.ModelPath = dir; s.Critic != nil && s.CriticPath == "" && s.Model.CriticModelPath == s.Model.ModelPath {
		of.CriticPath = dir
	}
	_, err := of.addModelFacts(f)
	return err
}

// ModelNotes returns what the files of a model say and a run leaves out, in lines for people.
func ModelNotes(path string) []string {
	m, err := model.ReadConfig(path)
	if err != nil {
		return nil // what needs the model says so
	}
	return m.Notes()
}

// modelFacts counts the parameters of the model, and those that the run trains.
func modelFacts(m *model.Config, loras []config.Lora) (config.ModelFacts, error) {
	f := config.ModelFacts{Known: true, Parameters: m.Parameters(), Trained: m.Parameters(), Notes: m.Notes()}
	if m.Mixture != nil {
		f.Active = m.ActiveParameters()
	}
	if len(loras) == 0 {
		return f, nil
	}
	adapter, err := adapterOf(m, &loras[0])
	if err != nil {
		return f, err
	}
	specs, err := adapter.Tensors(m)
	if err != nil {
		return f, err
	}
	f.Trained = 0
	for _, s := range specs {
		f.Trained += int64(s.Shape[0]) * int64(s.Shape[1])
	}
	return f, nil
}

// checkAdapters returns an error if an adapter does not fit the model.
func checkAdapters(m *model.Config, loras []config.Lora) error {
	for i := range loras {
		if _, err := adapterOf(m, &loras[i]); err != nil {
			return fmt.Errorf("model.lora_configs.%d: %w", i, err)
		}
	}
	return nil
}

// adapterOf reads an adapter from its PEFT directory. Without one it describes a new adapter.
func adapterOf(m *model.Config, l *config.Lora) (*model.LoRA, error) {
	if l.Path != "" {
		file, err := model.OpenAdapter(l.Path, m)
		if err != nil {
			return nil, err
		}
		return &file.LoRA, file.Close()
	}
	lora := model.NewLoRA(&l.LoRASpec)
	if err := lora.CheckExcluded(m); err != nil {
		return nil, err
	}
	_, err := lora.Tensors(m)
	return &lora, err
}

// warnOfBase reports a base that PEFT cannot open although the adapters of the run will name it. A stage that
// continues an adapter does not repeat what the stage before has said.
func warnOfBase(configs []config.Lora, say func(string)) {
	if len(configs) == 0 || configs[0].Path != "" || !strings.EqualFold(filepath.Ext(configs[0].BaseModelName), ".gguf") {
		return
	}
	base := configs[0].BaseModelName
	say(fmt.Sprintf("adapters of this run name the base %s, which PEFT cannot open; for PEFT, write the base as a directory "+
		"(trinity convert %[1]s --output DIR) and set model.lora_configs.0.base_model_name=DIR", base))
}

// loraSpec returns the adapter to train, or nil.
func loraSpec(configs []config.Lora) *engine.LoRASpec {
	if len(configs) == 0 {
		return nil
	}
	return &configs[0].LoRASpec
}

// Provenance returns what a checkpoint of the stage notes about it: settings, model and the data that it
// reads.
func (s *Stage) Provenance(read []feed.Dataset) (m checkpoint.Provenance, err error) {
	m.Data = map[string]string{}
	if m.Settings, err = checkpoint.Settings(s.Settled); err != nil {
		return m, err
	}
	if s.ModelPath != "" {
		if m.Model, err = checkpoint.Fingerprint(s.ModelPath, checkpoint.IsModelFile); err != nil {
			return m, err
		}
	}
	sources := s.Sources()
	for _, d := range read {
		key := d.Key + ".path"
		path, _ := feed.Local(d.Path, true)
		if path == "" || !slices.Contains(sources, key) || strings.Contains(key, ".eval_") {
			continue
		}
		isRow := func(name string) bool { return d.Options.TaskDir || dataset.IsFile(name) }
		if m.Data[key], err = checkpoint.Fingerprint(path, isRow); err != nil {
			return m, err
		}
	}
	return m, nil
}

// Changes compares a stage with its newest checkpoint, if it resumes from one. The error has a line
// for each difference that keeps it from resuming. told has a line for each other difference. begun
// reports whether the stage began with the model that its configuration names.
func (s *Stage) Changes(now checkpoint.Provenance, begun bool) (told []string, err error) {
	if !s.ContinueFromCheckpoint || !s.Trains {
		return nil, nil
	}
	if err := s.checkAlone(); err != nil {
		return nil, err
	}
	dir := checkpoint.Dir{Path: s.CheckpointJobDir}
	return dir.Compare(s.Settled, now, begun)
}

// checkAlone returns an error if mode both resumes a run of several explorers: nobody would know
// which rows the others have explored.
func (s *Stage) checkAlone() error {
	if !s.Together {
		return nil
	}
	names, err := fleet.Explorers(s.CheckpointJobDir)
	others := slices.DeleteFunc(names, func(name string) bool { return name == s.Explorer.Name })
	if err != nil || len(others) == 0 {
		return err
	}
	what := fmt.Sprintf("is %s, which has explorer %s alone, and the run has the explorers %s, whose rows would be explored again",
		s.Mode, s.Explorer.Name, strings.Join(others, ", "))
	return s.At("mode", what, "resume in modes train and explore, or "+checkpoint.Anew)
}
