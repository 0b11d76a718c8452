package tinker

import (
	"context"
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

// dirOf returns the directory of a checkpoint. The colons of a run's id are no part of a file's name everywhere.
func (s *Server) dirOf(p tinker.Path) string {
	return filepath.Join(s.opts.Dir, strings.ReplaceAll(p.Run, ":", "_"), p.Kind, p.Name)
}

// checkpoint is a checkpoint that is there.
type checkpoint struct {
	made
	path tinker.Path
	dir  string
}

// find returns the checkpoint at a path.
func (s *Server) find(text string) (*checkpoint, error) {
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
	if err := json.Unmarshal(data, &c.made); err != nil {
		return nil, &ownError{fmt.Errorf("%s: %w", filepath.Join(c.dir, madeName), err)}
	}
	return c, nil
}

// write writes a checkpoint of a model: the adapter, and the optimizer's state if it is to be trained on.
func (s *Server) write(ctx context.Context, m *model, p tinker.Path) error {
	dir := s.dirOf(p)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return &ownError{err}
	}
	err := durable.WriteDir(dir, func(temp string) error {
		if err := m.trainer.SaveModel(ctx, temp); err != nil {
			return err
		}
		if p.Kind == tinker.Weights {
			if err := m.trainer.SaveState(ctx, temp); err != nil {
				return err
			}
		}
		data, err := json.Marshal(m.made)
		if err != nil {
			return err
		}
		return durable.WriteFile(filepath.Join(temp, madeName), data)
	})
	if err != nil {
		return &ownError{err}
	}
	return nil
}

// saveWeights writes a checkpoint with a name, or one for a sampling session.
func (s *Server) saveWeights(_ context.Context, body []byte) (any, error) {
	var in tinker.SaveWeights
	if err := read(body, &in); err != nil {
		return nil, err
	}
	kind := tinker.Weights
	if in.Type == "save_weights_for_sampler" {
		kind = tinker.SamplerWeights
	}
	return s.order(in.ModelID, in.SeqID, body, func(ctx context.Context, m *model) (any, error) {
		if in.Path == "" && kind == tinker.SamplerWeights {
			return s.saveSampler(ctx, m, &in)
		}
		if err := tinker.CheckName(in.Path); err != nil {
			return nil, err
		}
		p := tinker.Path{Run: m.id, Kind: kind, Name: in.Path}
		if _, err := os.Stat(s.dirOf(p)); err == nil && !in.Overwrite {
			return nil, fmt.Errorf("there is a checkpoint %s: pass overwrite=True, or another name", p)
		}
		if err := s.write(ctx, m, p); err != nil {
			return nil, err
		}
		path := p.String()
		return &tinker.SavedWeights{Path: &path, Type: in.Type}, nil
	})
}

// saveSampler writes what a sampling session samples from, and begins that session.
func (s *Server) saveSampler(ctx context.Context, m *model, in *tinker.SaveWeights) (any, error) {
	session, _, _ := strings.Cut(m.id, ":")
	id, err := s.numbered(session, "sample", in.SamplerSeqID, "sampling_session_seq_id")
	if err != nil {
		return nil, err
	}
	p := tinker.Path{Run: m.id, Kind: tinker.SamplerWeights, Name: fmt.Sprint("session-", *in.SamplerSeqID)}
	if err := s.write(ctx, m, p); err != nil {
		return nil, err
	}
	s.addSampler(&sampler{id: id, base: m.base, adapter: m.base.shelf.add(p.String(), s.dirOf(p)), path: p.String()})
	return &tinker.SavedWeights{SamplingSessionID: id, Type: in.Type}, nil
}

// loadWeights makes a model of a checkpoint, or loads one into a model.
func (s *Server) loadWeights(ctx context.Context, body []byte) (any, error) {
	var in tinker.LoadWeights
	if err := read(body, &in); err != nil {
		return nil, err
	}
	if in.ModelID != "" {
		return s.order(in.ModelID, in.SeqID, body, func(ctx context.Context, m *model) (any, error) {
			c, b, err := s.loadable(&in)
			if err != nil {
				return nil, err
			}
			if c.made != m.made {
				return nil, fmt.Errorf("%s is of %s, rank %d, and this model is of %s, rank %d", c.path, c.BaseModel, c.Rank,
					m.made.BaseModel, m.made.Rank)
			}
			trainer, err := c.open(ctx, b, in.Optimizer)
			if err != nil {
				return nil, err
			}
			err = m.trainer.Close()
			m.trainer, m.spoilt = trainer, ""
			return map[string]string{"path": in.Path, "model_id": m.id, "type": "load_weights"}, err
		})
	}
	id, err := s.numbered(in.SessionID, "train", in.ModelSeqID, "model_seq_id")
	if err != nil {
		return nil, err
	}
	c, b, err := s.loadable(&in)
	if err != nil {
		return nil, err
	}
	return s.newModel(ctx, id, body, b, c.made, func(ctx context.Context) (engine.Trainer, error) {
		return c.open(ctx, b, in.Optimizer)
	}, map[string]string{"path": in.Path, "model_id": id, "type": "load_weights"})
}

// loadable returns the checkpoint that a client wants to train on, and its base.
func (s *Server) loadable(in *tinker.LoadWeights) (*checkpoint, *Base, error) {
	c, err := s.find(in.Path)
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
	c, err := s.find(in.Path)
	if err != nil {
		return nil, err
	}
	return struct {
		made
		IsLoRA bool `json:"is_lora"`
	}{c.made, true}, nil
}
