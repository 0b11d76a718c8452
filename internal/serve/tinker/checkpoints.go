package tinker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// madeName is the file in a checkpoint that says how its adapter was made.
const madeName = "tinker.json"

// store is the directory of all checkpoints.
type store string

// dirOf returns the directory of a checkpoint. The colons of a run's id are no part of a file's name everywhere.
func (s store) dirOf(p tinker.Path) string {
	return filepath.Join(string(s), strings.ReplaceAll(p.Run, ":", "_"), p.Kind, p.Name)
}

// checkpoint is a checkpoint that is there.
type checkpoint struct {
	recipe
	Written string `json:"written"` // differs from that of what was overwritten

	path tinker.Path
	dir  string
}

// key names the adapter of the checkpoint in a sampler.
func (c *checkpoint) key() string { return c.path.String() + "#" + c.Written }

// find returns the checkpoint at a path.
func (s store) find(text string) (*checkpoint, error) {
	p, err := tinker.ParsePath(text)
	if err != nil {
		return nil, bad("%v", err)
	}
	c := &checkpoint{path: p, dir: s.dirOf(p)}
	data, err := os.ReadFile(filepath.Join(c.dir, madeName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missing("there is no checkpoint %s", p)
	case err != nil:
		return nil, &ownError{err}
	}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, &ownError{fmt.Errorf("%s: %w", filepath.Join(c.dir, madeName), err)}
	}
	return c, nil
}

// write writes a checkpoint of a model: the adapter, and the optimizer's state if it is to be trained on.
func (s store) write(ctx context.Context, m *model, p tinker.Path) (*checkpoint, error) {
	c := &checkpoint{recipe: m.recipe, Written: rand.Text(), path: p, dir: s.dirOf(p)}
	if err := os.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil {
		return nil, &ownError{err}
	}
	err := durable.WriteDir(c.dir, func(temp string) error {
		if err := m.trainer.SaveModel(ctx, temp); err != nil {
			return err
		}
		if p.Kind == tinker.Weights {
			if err := m.trainer.SaveState(ctx, temp); err != nil {
				return err
			}
		}
		data, err := json.Marshal(c)
		if err != nil {
			return err
		}
		return durable.WriteFile(filepath.Join(temp, madeName), data)
	})
	if err != nil {
		return nil, &ownError{err}
	}
	return c, nil
}

// saveWeights writes a checkpoint with a name, or one for a sampling session.
func (s *Server) saveWeights(_ context.Context, body []byte) (any, error) {
	var in tinker.SaveWeights
	return s.ordered(body, &in, func(ctx context.Context, m *model) (any, error) {
		kind, hint := tinker.Weights, "pass overwrite=True, or another name"
		switch in.Type {
		case "save_weights_for_sampler":
			kind, hint = tinker.SamplerWeights, "pass another name"
		case "save_weights_external":
			return nil, errors.New("save_weights_external is not in this version: the checkpoints of save_state are PEFT directories")
		}
		if in.Kind == "inflight" {
			return nil, errors.New(`kind "inflight" is not in this version: pass kind="snapshot"`)
		}
		if in.Path == "" && kind == tinker.SamplerWeights {
			return s.saveSampler(ctx, m, &in)
		}
		if err := tinker.CheckName(in.Path); err != nil {
			return nil, err
		}
		if m.pending && kind == tinker.Weights {
			return nil, errors.New("there is a gradient that no optim_step has used: call optim_step before save_state")
		}
		p := tinker.Path{Run: m.id, Kind: kind, Name: in.Path}
		if _, err := os.Stat(s.store.dirOf(p)); err == nil && !in.Overwrite {
			return nil, fmt.Errorf("there is a checkpoint %s: %s", p, hint)
		}
		if _, err := s.store.write(ctx, m, p); err != nil {
			return nil, err
		}
		path := p.String()
		return &tinker.SavedWeights{Path: &path, Type: in.Type}, nil
	})
}

// ofSessions is the kind of what sampling sessions sample from. No path of a client names it.
const ofSessions = "sessions"

// saveSampler writes what a sampling session samples from, and begins that session.
func (s *Server) saveSampler(ctx context.Context, m *model, in *tinker.SaveWeights) (any, error) {
	session, _, _ := strings.Cut(m.id, ":")
	_, id, err := s.numbered(session, "sample", in.SamplerSeqID, "sampling_session_seq_id")
	if err != nil {
		return nil, err
	}
	c, err := s.store.write(ctx, m, tinker.Path{Run: m.id, Kind: ofSessions, Name: fmt.Sprint(*in.SamplerSeqID)})
	if err != nil {
		return nil, err
	}
	s.addSampler(&sampler{id: id, base: m.base, adapter: m.base.shelf.add(c.key(), c.dir)})
	return &tinker.SavedWeights{SamplingSessionID: id, Type: in.Type}, nil
}

// forgetSessions removes what the sampling sessions of a model sampled from.
func (s *Server) forgetSessions(modelID string) {
	if err := os.RemoveAll(filepath.Dir(s.store.dirOf(tinker.Path{Run: modelID, Kind: ofSessions, Name: "x"}))); err != nil {
		s.opts.Say(err.Error())
	}
}

// loadWeights makes a model of a checkpoint, or loads one into a model.
func (s *Server) loadWeights(ctx context.Context, body []byte) (any, error) {
	var in tinker.LoadWeights
	if err := read(body, &in); err != nil || in.ModelID != "" {
		return s.ordered(body, &in, func(ctx context.Context, m *model) (any, error) {
			c, b, err := s.loadable(&in)
			if err != nil {
				return nil, err
			}
			if own, its := &m.recipe, &c.recipe; *own != *its {
				return nil, fmt.Errorf("%s is of another adapter: %s, and this model is %s", c.path, its, own)
			}
			trainer, err := c.open(ctx, b, in.Optimizer)
			if err != nil {
				return nil, err
			}
			err = m.trainer.Close()
			m.trainer, m.spoilt, m.pending = trainer, "", false
			return map[string]string{"path": in.Path, "model_id": m.id, "type": "load_weights"}, err
		})
	}
	session, id, err := s.numbered(in.SessionID, "train", in.ModelSeqID, "model_seq_id")
	if err != nil {
		return nil, err
	}
	c, b, err := s.loadable(&in)
	if err != nil {
		return nil, err
	}
	return s.newModel(ctx, session, &model{id: id, base: b, recipe: c.recipe}, body, func(ctx context.Context) (engine.Trainer, error) {
		return c.open(ctx, b, in.Optimizer)
	}, map[string]string{"path": in.Path, "model_id": id, "type": "load_weights"})
}

// loadable returns the checkpoint that a client wants to train on, and its base.
func (s *Server) loadable(in *tinker.LoadWeights) (*checkpoint, *Base, error) {
	c, err := s.store.find(in.Path)
	if err != nil {
		return nil, nil, err
	}
	if c.path.Kind != tinker.Weights && in.Optimizer {
		return nil, nil, bad("%s has no optimizer: load one of %s, or pass optimizer=False", c.path, tinker.Weights)
	}
	if in.BaseModel != "" && in.BaseModel != c.BaseModel {
		return nil, nil, bad("%s is of %s, and not of %.200q", c.path, c.BaseModel, in.BaseModel)
	}
	b, err := s.baseOf(c.BaseModel)
	return c, b, err
}

// open opens a trainer of the checkpoint, with moments of zero unless withOptimizer.
func (c *checkpoint) open(ctx context.Context, b *Base, withOptimizer bool) (engine.Trainer, error) {
	spec := c.lora()
	spec.Path = c.dir
	trainer, err := b.Open(ctx, spec, 0)
	if err == nil && withOptimizer {
		if err = trainer.LoadState(ctx, c.dir); err != nil {
			err = errors.Join(err, trainer.Close())
		}
	}
	if err != nil {
		return nil, &ownError{err}
	}
	return trainer, nil
}

func (s *Server) weightsInfo(_ context.Context, body []byte) (any, error) {
	var in struct {
		Path string `json:"tinker_path"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	c, err := s.store.find(in.Path)
	if err != nil {
		return nil, err
	}
	return struct {
		recipe
		IsLoRA bool `json:"is_lora"`
	}{c.recipe, true}, nil
}
