package finetune

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// baseOf returns a base of the service.
func (o *Options) baseOf(name string) (Base, error) {
	for _, b := range o.Bases {
		if b.Name == name {
			return b, nil
		}
	}
	return Base{}, openai.Bad("model", "there is no model %.120q: want one of %s, or what a job has made", name, o.names())
}

// modelOf returns the base of a model that a client names, and the directory of its adapter, "" for the base itself.
func (s *Server) modelOf(owner, name string) (base Base, adapter string, err error) {
	if base, err = s.opts.baseOf(name); err == nil {
		return base, "", nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.served(owner) {
		if m.Name == name {
			if base, err = s.opts.baseOf(m.Base); err != nil {
				err = openai.Bad("model", "%s is an adapter of %s, which this service does not have", name, m.Base)
			}
			return base, m.Dir, err
		}
	}
	return base, "", err
}

// removeModel removes a model of an owner: a checkpoint, or what a job has made with all its checkpoints.
func (s *Server) removeModel(owner, name string) (any, error) {
	if _, err := s.opts.baseOf(name); err == nil {
		return nil, &openai.Problem{Status: http.StatusForbidden, Code: "model_not_owned", Param: "model", Message: fmt.Sprintf(
			"%s is a model of the service: clients delete what their jobs have made", name)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	made, mark, isCheckpoint := strings.Cut(name, checkpointMark)
	for _, j := range s.jobs {
		if j.Owner != owner || j.modelName() != made {
			continue
		}
		if !j.Status.Ended() {
			return nil, openai.Bad("model", "the job %s has not ended, and needs its checkpoints: cancel it first", j.ID)
		}
		steps := j.checkpointSteps()
		if isCheckpoint {
			steps = slices.DeleteFunc(steps, func(step int64) bool { return strconv.FormatInt(step, 10) != mark })
		}
		for _, step := range steps {
			if err := durable.RemoveDir(rundir.Checkpoint(j.runDir(), step)); err != nil {
				return nil, unkept(err)
			}
		}
		if len(steps) > 0 {
			return map[string]any{"id": name, "object": "model", "deleted": true}, nil
		}
	}
	return nil, missing("there is no model %.200q here", name)
}

func (o *Options) names() string {
	var all []string
	for _, b := range o.Bases {
		all = append(all, b.Name)
	}
	return strings.Join(all, ", ")
}

// Model is an adapter that a job has made.
type Model struct {
	Name, Base, Dir string
	Created         int64
}

// Models returns the models of the finished jobs of an owner, and their checkpoints, by their names.
func (s *Server) Models(owner string) []Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.served(owner)
	slices.SortFunc(all, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// served is Models without an order, for who holds the mutex.
func (s *Server) served(owner string) (all []Model) {
	for _, j := range s.jobs {
		if j.Owner != owner {
			continue
		}
		steps, last := j.checkpointSteps(), int64(-1)
		if j.Status == wire.Succeeded && len(steps) > 0 {
			last = steps[len(steps)-1]
		}
		for _, step := range steps {
			m := Model{j.modelName() + checkpointMark + strconv.FormatInt(step, 10), j.Base, j.adapter(step), j.saved(step)}
			if all = append(all, m); step == last {
				m.Name = j.modelName()
				all = append(all, m)
			}
		}
	}
	return all
}

// Parts of the names of models.
const (
	modelPrefix    = "ft:"
	checkpointMark = ":ckpt-step-"
)

// modelName is the name of a job's model.
func (j *job) modelName() string {
	tail := ""
	if j.Suffix != nil {
		tail = *j.Suffix
	}
	return modelPrefix + j.Base + ":" + tail + ":" + j.key()
}

func (j *job) runDir() string { return filepath.Join(j.dir, runName) }

// adapter is where the weights of a checkpoint are.
func (j *job) adapter(step int64) string {
	return filepath.Join(rundir.Checkpoint(j.runDir(), step), "actor", "lora_adapter")
}

// checkpointSteps returns the steps of a job's checkpoints that have weights.
func (j *job) checkpointSteps() []int64 {
	steps, err := rundir.Checkpoints(j.runDir())
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(steps, func(step int64) bool { return j.saved(step) == 0 })
}

// saved returns when a checkpoint was written; 0 if it has no weights.
func (j *job) saved(step int64) int64 {
	info, err := os.Stat(filepath.Join(j.adapter(step), "adapter_model.safetensors"))
	if err != nil {
		return 0
	}
	return info.ModTime().Unix()
}
