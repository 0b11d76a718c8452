package service

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/serve/finetune"
	"github.com/trinity-go/trinity/internal/serve/openai"
	"github.com/trinity-go/trinity/internal/serve/tinker"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

// openJobs opens the fine-tuning jobs of a service, whose keys own them. serving returns the server that has the account of
// its keys, once there is one.
func openJobs(o *Options, serving func() *tinker.Server) (*finetune.Server, error) {
	self, err := process.Self()
	if err != nil {
		return nil, err
	}
	_, servers, err := samplerOf(o)
	if err != nil {
		return nil, err
	}
	sampler := o.Sampler
	if servers != nil { // those of the service have its memory
		sampler = registry.Samplers.Auto[0]
	}
	options := finetune.Options{
		Enter: func(ctx context.Context, owner string) (finetune.Turn, error) {
			return serving().Turns.Enter(ctx, owner)
		},
		Asker: func(owner, name string, used func(int)) (trinity.Asker, error) {
			return serving().Words().Asker(owner, name, used)
		},
		Dir: filepath.Join(o.Dir, "finetune"), Alpha: o.Alpha, Trainer: o.Trainer, TrainerArgs: o.TrainerArgs, Sampler: sampler,
		Program: self,
		Owner:   tinker.Owner, Say: o.Say,
		Disk: func(owner string) int64 { return serving().Turns.Disk(owner) },
		Grader: func(object map[string]any) (trinity.RewardFunc, error) {
			return registry.Rewards.Build("grader_reward", map[string]any{"grader": object})
		},
	}
	for _, m := range o.Models {
		path, err := filepath.Abs(m.Path)
		if err != nil {
			return nil, err
		}
		cfg, err := model.ReadConfig(path)
		if err != nil {
			return nil, err
		}
		options.Bases = append(options.Bases, finetune.Base{Name: m.Name, Path: path, MaxLen: o.length(cfg)})
	}
	return finetune.New(options)
}

// madeBy returns the models of jobs, which answer in words.
func madeBy(jobs *finetune.Server) func(owner string) []tinker.Made {
	return func(owner string) (all []tinker.Made) {
		for _, m := range jobs.Models(owner) {
			all = append(all, tinker.Made(m))
		}
		return all
	}
}

// serveJobs adds the paths of jobs to those of a service.
func serveJobs(mux *http.ServeMux, server *tinker.Server, jobs *finetune.Server) {
	guarded := server.Guard(jobs.Handler(), func(w http.ResponseWriter, status int, err error) {
		if status == http.StatusUnauthorized {
			err = errors.New("the key is unknown: set OPENAI_API_KEY to a key of the service")
		}
		openai.Fail(w, &openai.Problem{Status: status, Code: "invalid_api_key", Message: err.Error()})
	})
	for _, path := range []string{"/v1/files", "/v1/uploads", "/v1/fine_tuning"} {
		mux.Handle(path, guarded)
		mux.Handle(path+"/", guarded)
		mux.Handle(hosted+path, http.StripPrefix(hosted, guarded))
		mux.Handle(hosted+path+"/", http.StripPrefix(hosted, guarded))
	}
	mux.Handle("DELETE /v1/models/", guarded)
	mux.Handle("DELETE "+hosted+"/v1/models/", http.StripPrefix(hosted, guarded))
}
