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

// catalog is what there is to train and to sample.
type catalog struct {
	store *store
	bases map[string]*Base
}

// store is the directory of all checkpoints.
type store struct {
	dir     string
	limits  func(owner string) Key
	linkKey []byte // signs links to archives

	changes locks // of the directories of checkpoints
	disk    disk
}

func newStore(dir string, limits func(owner string) Key) *store {
	return &store{dir: dir, limits: limits, linkKey: []byte(rand.Text())}
}

// dirOf returns the directory of a checkpoint. The colons of a run's id are no part of a file's name everywhere.
func (s *store) dirOf(p tinker.Path) string {
	return filepath.Join(s.dir, strings.ReplaceAll(p.Run, ":", "_"), p.Kind, p.Name)
}

// checkpoint is a checkpoint that is there.
type checkpoint struct {
	recipe
	facts
	Weights string `json:"base_fingerprint,omitempty"`
	Written string `json:"written"` // the request that wrote it, which differs from that of what was overwritten

	path tinker.Path
	dir  string
}

// key names the adapter of the checkpoint in a sampler.
func (c *checkpoint) key() string { return c.path.String() + "#" + c.Written }

// find returns the checkpoint at a path.
func (s *store) find(p tinker.Path) (*checkpoint, error) { return readCheckpoint(p, s.dirOf(p)) }

// readCheckpoint reads what a directory says of its checkpoint.
func readCheckpoint(p tinker.Path, dir string) (*checkpoint, error) {
	c := &checkpoint{path: p, dir: dir}
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

// write writes a checkpoint of a model: the adapter, and the optimizer's state if it is to be trained on. seq is the request
// that writes it; if it has done so before a kill, its checkpoint stays.
func (s *store) write(ctx context.Context, m *model, p tinker.Path, f facts, seq int32) (*checkpoint, error) {
	c := &checkpoint{recipe: m.recipe, facts: f, Weights: m.base.Weights, Written: futureID(m.id, seq), path: p, dir: s.dirOf(p)}
	if there, err := s.find(p); err == nil && there.Written == c.Written {
		return there, nil
	}
	defer s.changes.take(c.dir)() // what others change in the meantime is about what was there before
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
		size, err := durable.Size(temp)
		if err != nil {
			return err
		}
		c.Bytes = size
		if there, err := s.find(p); err == nil && there.Owner == c.Owner { // it will have gone
			size -= there.Bytes
		}
		if err := s.fits(c.Owner, size); err != nil {
			return err
		}
		return c.describe(temp)
	})
	s.disk.changed()
	if full := (*fullError)(nil); errors.As(err, &full) {
		return nil, full
	}
	if err != nil {
		return nil, &ownError{err}
	}
	return c, nil
}

// saveCall reads a request for a checkpoint with a name, or one for a sampling session.
func (s *Server) saveCall(body []byte) (*call, error) {
	var in tinker.SaveWeights
	return ordered(body, &in, func(ctx context.Context, m *model) (any, error) {
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
		if _, drops := m.trainer.(engine.Discarder); m.pending && kind == tinker.Weights && !drops {
			return nil, errors.New("this engine cannot leave the gradient since the last optim_step out: call optim_step before save_state")
		}
		p := tinker.Path{Run: m.id, Kind: kind, Name: in.Path}
		if there, err := s.all.store.find(p); !isMissing(err) && !in.Overwrite && (err != nil || there.Written != futureID(m.id, in.SeqID)) {
			return nil, fmt.Errorf("there is a checkpoint %s: %s", p, hint)
		}
		f, err := m.facts(in.TTLSeconds, in.UserMetadata)
		if err != nil {
			return nil, err
		}
		if _, err := s.all.store.write(ctx, m, p, f, in.SeqID); err != nil {
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
	if err := m.recipe.samplesOn(m.base); err != nil {
		return nil, err
	}
	session, _, _ := strings.Cut(m.id, ":")
	_, id, err := s.numbered(m.session.owner, session, "sample", in.SamplerSeqID, "sampling_session_seq_id")
	if err != nil {
		return nil, err
	}
	f, err := m.facts(nil, nil)
	if err != nil {
		return nil, err
	}
	c, err := s.all.store.write(ctx, m, tinker.Path{Run: m.id, Kind: ofSessions, Name: fmt.Sprint(*in.SamplerSeqID)}, f, in.SeqID)
	if err != nil {
		return nil, err
	}
	x := &sampler{id: id, owner: m.session.owner, base: m.base, adapter: m.base.shelf.add(c), model: m.id}
	if err := s.all.store.keepSampler(x); err != nil {
		x.close()
		return nil, &ownError{err}
	}
	s.addSampler(x)
	return &tinker.SavedWeights{SamplingSessionID: id, Type: in.Type}, nil
}

// forgetSessions removes what the sampling sessions of a model sampled from.
func (s *store) forgetSessions(modelID string, say func(string)) {
	if err := os.RemoveAll(filepath.Dir(s.dirOf(tinker.Path{Run: modelID, Kind: ofSessions, Name: "x"}))); err != nil {
		say(err.Error())
	}
	s.disk.changed()
}

// loadWeights makes a model of a checkpoint, or loads one into a model.
func (s *Server) loadWeights(ctx context.Context, body []byte) (any, error) {
	var in tinker.LoadWeights
	if err := read(body, &in); err != nil || in.ModelID != "" {
		return s.order(Owner(ctx), callLoad, body)
	}
	session, id, err := s.numbered(Owner(ctx), in.SessionID, "train", in.ModelSeqID, "model_seq_id")
	if err != nil {
		return nil, err
	}
	c, b, err := s.all.loadable(Owner(ctx), &in)
	if err != nil {
		return nil, err
	}
	about, err := texts(in.UserMetadata)
	if err != nil {
		return nil, err
	}
	return s.newModel(ctx, session, &model{id: id, base: b, recipe: c.recipe, about: about}, callLoad, body)
}

// loadCall loads a checkpoint into a model. A state is cut before the client has the result, because the checkpoint may be
// another one when the request is replayed.
func (s *catalog) loadCall(body []byte) (*call, error) {
	var in tinker.LoadWeights
	c, err := ordered(body, &in, func(ctx context.Context, m *model) (any, error) {
		c, b, err := s.loadable(m.session.owner, &in)
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
	if err != nil {
		return nil, err
	}
	c.redo = func(ctx context.Context, m *model, failed *tinker.Failed) error {
		if failed != nil {
			return nil
		}
		_, err := c.run(ctx, m)
		return err
	}
	return c, nil
}

// openLoaded opens the trainer of a model that load_weights makes.
func (s *catalog) openLoaded(ctx context.Context, owner string, body []byte) (engine.Trainer, error) {
	var in tinker.LoadWeights
	if err := read(body, &in); err != nil {
		return nil, err
	}
	c, b, err := s.loadable(owner, &in)
	if err != nil {
		return nil, err
	}
	return c.open(ctx, b, in.Optimizer)
}

// loadable returns the checkpoint that a client wants to train on, and its base.
func (s *catalog) loadable(owner string, in *tinker.LoadWeights) (*checkpoint, *Base, error) {
	if in.AccessToken != "" {
		return nil, nil, noAccessTokens
	}
	c, err := s.store.readable(owner, in.Path)
	if err != nil {
		return nil, nil, err
	}
	if c.path.Kind != tinker.Weights && in.Optimizer {
		return nil, nil, bad("%s has no optimizer: load one of %s, or pass optimizer=False", c.path, tinker.Weights)
	}
	if in.BaseModel != "" && in.BaseModel != c.BaseModel {
		return nil, nil, bad("%s is of %s, and not of %.200q", c.path, c.BaseModel, in.BaseModel)
	}
	b, err := s.base(c)
	return c, b, err
}

// open opens a trainer of the checkpoint, with moments of zero unless withOptimizer.
func (c *checkpoint) open(ctx context.Context, b *Base, withOptimizer bool) (engine.Trainer, error) {
	spec := c.lora()
	spec.Path = c.dir
	trainer, err := b.Open(ctx, spec, 0)
	if err != nil {
		return nil, err
	}
	if withOptimizer {
		if err := c.load(ctx, trainer); err != nil {
			return nil, &ownError{errors.Join(err, trainer.Close())}
		}
	}
	return trainer, nil
}

// load loads weights and moments. A state also has the gradient that no step had used when it was saved, which is no part of
// a checkpoint: whoever loads one sends the passes of the next step anew.
func (c *checkpoint) load(ctx context.Context, trainer engine.Trainer) error {
	if err := trainer.LoadState(ctx, c.dir); err != nil {
		return err
	}
	if d, ok := trainer.(engine.Discarder); ok {
		return d.Discard(ctx)
	}
	return nil // an engine that drops no gradient: see saveCall
}

func (s *catalog) weightsInfo(ctx context.Context, body []byte) (any, error) {
	var in struct {
		Path string `json:"tinker_path"`
	}
	if err := read(body, &in); err != nil {
		return nil, err
	}
	c, err := s.store.readable(Owner(ctx), in.Path)
	if err != nil {
		return nil, err
	}
	return struct {
		recipe
		IsLoRA    bool                   `json:"is_lora"`
		Optimizer tinker.OptimizerConfig `json:"optimizer_config"`
	}{c.recipe, true, tinker.OptimizerConfig{Type: c.Optimizer}}, nil
}
