package tinker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// version is the last version that the engine offered.
type version struct {
	Published    int64  `json:"published_version"`
	HasPublished bool   `json:"has_published"`
	Path         string `json:"published_path,omitempty"` // of the checkpoint that samplers load
	behind       bool   // OptimStep has changed the weights since
	snapshot     string // the checkpoint for samplers of the current weights; "" if there is none
}

// reference is the file that stands for weights which lie at the service.
type reference struct {
	Path string `json:"path"`
}

// state is the file of a saved state. The tensors lie at the service.
type state struct {
	Engine  string          `json:"engine"` // tinker
	Format  int             `json:"format"`
	Service string          `json:"service"`
	Steps   int64           `json:"optimizer_steps"`
	Behind  bool            `json:"published_weights_differ"`
	Base    string          `json:"base_model"`
	Adapter map[string]bool `json:"adapter"`
	Rank    int             `json:"lora_rank"`
	Weights reference       `json:"weights"` // with the optimizer
	version
}

const (
	stateName     = "service.json"
	referenceName = "tinker.json"
	stateFormat   = 1
	engineName    = "tinker"
)

// save writes a checkpoint at the service. Names are never used twice, because a killed run may have used one.
func (e *trainer) save(ctx context.Context, kind string) (path string, err error) {
	name := fmt.Sprintf("%s-step-%06d-%s", strings.TrimSuffix(kind, "_weights"), e.steps, strings.ToLower(rand.Text()[:8]))
	path, err = e.model.Save(ctx, kind, name)
	return path, broken(err)
}

// current returns the checkpoint for samplers of the current weights.
func (e *trainer) current(ctx context.Context) (string, error) {
	if e.snapshot != "" {
		return e.snapshot, nil
	}
	if err := e.open(ctx); err != nil {
		return "", err
	}
	path, err := e.save(ctx, tinker.SamplerWeights)
	if err == nil {
		e.snapshot = path
	}
	return path, err
}

// do runs one call of the engine, with its deadline.
func (e *trainer) do(ctx context.Context, call func(context.Context) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return errClosed
	case !e.spec.Train:
		return errNotTrained
	}
	ctx, cancel := e.link.limited(ctx)
	defer cancel()
	return call(ctx)
}

// Offer implements engine.Publisher: a version is a checkpoint for samplers.
func (e *trainer) Offer(ctx context.Context, number int64) error {
	return e.do(ctx, func(ctx context.Context) error { return e.offer(ctx, number) })
}

func (e *trainer) offer(ctx context.Context, number int64) error {
	path, err := e.current(ctx)
	if err != nil {
		return err
	}
	e.version = version{Published: number, HasPublished: true, Path: path, snapshot: path}
	return nil
}

// Adopt implements engine.Publisher.
func (e *trainer) Adopt(ctx context.Context) (number int64, err error) {
	return number, e.do(ctx, func(ctx context.Context) error {
		number, err = e.adopt(ctx)
		return err
	})
}

func (e *trainer) adopt(ctx context.Context) (int64, error) {
	if !e.HasPublished {
		return 0, errors.New("tinker: no version was published")
	}
	if e.sampler == nil {
		return e.Published, nil
	}
	old := e.sampler.path()
	if err := e.sampler.use(ctx, e.Published, e.Path); err != nil {
		return 0, err
	}
	if old != "" && old != e.Path {
		e.left = append(e.left, old)
	}
	if len(e.left) > inUse {
		e.remove(ctx, e.left[0])
		e.left = e.left[1:]
	}
	return e.Published, nil
}

// inUse is how many versions before the present one requests may still sample from.
const inUse = 8

// remove removes a checkpoint unless a file names it. One that stays takes up space, and does no other harm.
func (e *trainer) remove(ctx context.Context, path string) {
	if !e.named[path] {
		_ = e.link.Remove(ctx, path)
	}
}

// name notes that a file names a checkpoint.
func (e *trainer) name(path string) {
	if e.named == nil {
		e.named = map[string]bool{}
	}
	e.named[path] = true
}

// publish offers the current weights and gives them to the sampler.
func (e *trainer) publish(ctx context.Context, number int64) error {
	if err := e.offer(ctx, number); err != nil {
		return err
	}
	_, err := e.adopt(ctx)
	return err
}

// first gives the sampler version 0, unless it has another one.
func (e *trainer) first(ctx context.Context) error {
	return e.do(ctx, func(ctx context.Context) error {
		if e.HasPublished {
			return nil
		}
		return e.publish(ctx, 0)
	})
}

// SaveState implements engine.Trainer: the state is a checkpoint of the service, and the file names it.
func (e *trainer) SaveState(ctx context.Context, dir string) error {
	return e.do(ctx, func(ctx context.Context) error {
		behind := e.HasPublished && e.behind
		switch {
		case e.pending:
			return errors.New("tinker: SaveState between ForwardBackward and OptimStep: a resumed run would lose the gradient")
		case behind && !e.spec.Ahead:
			return fmt.Errorf("tinker: the weights have changed since version %d, which the sampler has, so a resumed run would not be exact: "+
				"open the engine with TrainerSpec.Ahead", e.Published)
		}
		if err := e.open(ctx); err != nil {
			return err
		}
		path, err := e.save(ctx, tinker.Weights)
		if err != nil {
			return err
		}
		s := e.recipe()
		s.Service, s.Steps, s.Behind, s.Weights, s.version = e.link.Service, e.steps, behind, reference{path}, e.version
		if behind {
			e.name(e.Path)
		}
		return writeJSON(filepath.Join(dir, stateName), s)
	})
}

// Forget removes what the service has of a state that SaveState has written to a directory, which will be removed. The version
// for samplers stays, which others may name.
func (e *trainer) Forget(ctx context.Context, dir string) error {
	return e.do(ctx, func(ctx context.Context) error {
		s, err := e.readState(dir)
		if err != nil || s.Service != e.link.Service {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, forgetTime)
		defer cancel()
		return e.link.Remove(ctx, s.Weights.Path)
	})
}

// forgetTime bounds how long a run waits for a checkpoint that it no longer needs.
const forgetTime = time.Minute

// recipe returns the state of an engine that has done nothing.
func (e *trainer) recipe() state {
	s := &e.spec.Service
	return state{
		Engine: engineName, Format: stateFormat, Base: s.BaseModel, Rank: e.spec.LoRA.LoraRank,
		Adapter: map[string]bool{"train_mlp": s.MLP, "train_attn": s.Attention, "train_unembed": s.Unembed},
	}
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = durable.WriteFile(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("tinker: %w", err)
	}
	return nil
}

// LoadState implements engine.Trainer.
func (e *trainer) LoadState(ctx context.Context, dir string) error {
	return e.do(ctx, func(ctx context.Context) error {
		s, err := e.readState(dir)
		if err != nil {
			return err
		}
		if e.model == nil {
			e.model, err = e.link.Resume(ctx, s.Weights.Path)
			if err != nil {
				e.model = nil
			}
		} else {
			err = e.model.Load(ctx, s.Weights.Path)
		}
		if err != nil {
			return fmt.Errorf("loading %s, which %s names: %w", s.Weights.Path, filepath.Join(dir, stateName), broken(err))
		}
		e.steps, e.pending, e.version = s.Steps, false, version{}
		switch {
		case !s.HasPublished:
			return nil
		case s.Behind:
			e.version = s.version
			e.behind = true
			e.name(e.Path)
		default:
			if err := e.offer(ctx, s.Published); err != nil {
				return err
			}
		}
		_, err = e.adopt(ctx)
		return err
	})
}

// readState reads the file of a state and checks that a run with these settings wrote it.
func (e *trainer) readState(dir string) (s state, err error) {
	path := filepath.Join(dir, stateName)
	text, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("tinker: state: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("tinker: %s: %w", path, err)
	}
	own := e.recipe()
	switch {
	case s.Engine != engineName:
		return s, fmt.Errorf("tinker: %s is of another engine, and a service reads its own checkpoints alone: begin a new run", path)
	case s.Format != stateFormat:
		return s, fmt.Errorf("tinker: %s has format %d; this version reads %d", path, s.Format, stateFormat)
	case s.Base != own.Base || s.Rank != own.Rank || fmt.Sprint(s.Adapter) != fmt.Sprint(own.Adapter):
		return s, fmt.Errorf("tinker: %s is of a run with base model %s, rank %d, %v: resume the run with its own model.tinker", path, s.Base,
			s.Rank, s.Adapter)
	}
	return s, nil
}

// SaveModel implements engine.Trainer: a PEFT adapter, and the name of its checkpoint.
func (e *trainer) SaveModel(ctx context.Context, dir string) error {
	return e.do(ctx, func(ctx context.Context) error {
		path, err := e.current(ctx)
		if err != nil {
			return err
		}
		return e.download(ctx, path, dir)
	})
}

// SavePublished implements engine.Publisher.
func (e *trainer) SavePublished(ctx context.Context, dir string) error {
	return e.do(ctx, func(ctx context.Context) error {
		if !e.HasPublished {
			return errors.New("tinker: no version was published")
		}
		return e.refer(e.Path, dir)
	})
}

// SaveVersion implements engine.VersionWriter: a sampler of the service needs the name of the checkpoint alone.
func (e *trainer) SaveVersion(ctx context.Context, dir string) error {
	return e.do(ctx, func(ctx context.Context) error {
		path, err := e.current(ctx)
		if err != nil {
			return err
		}
		return e.refer(path, dir)
	})
}

// refer writes the file that stands for a checkpoint.
func (e *trainer) refer(path, dir string) error {
	e.name(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("tinker: %w", err)
	}
	return writeJSON(filepath.Join(dir, referenceName), reference{path})
}
