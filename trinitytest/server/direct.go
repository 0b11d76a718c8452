package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// vllmGroup is how the plug-in trinity_files is told to join a sender.
type vllmGroup struct {
	Transport string              `json:"transport"`
	Group     string              `json:"group"`
	Address   string              `json:"address"`
	Port      int                 `json:"port"`
	World     int                 `json:"world"`
	Seconds   float64             `json:"seconds"`
	Tensors   []engine.TensorInfo `json:"tensors"`
}

// joins reports whether the update comes from a sender.
func (x *transfer) joins() bool { return x.group != nil && x.group.Transport != "" }

// vllmJoin compares the tensors that will come, and joins their sender.
func (f *Fake) vllmJoin(r *http.Request, x *transfer) error {
	f.joined.leave()
	g := x.group
	switch {
	case g == nil:
		return nil
	case !x.joins():
		return f.compare(g.Tensors)
	case !x.started:
		return errors.New("this fake joins only while an update is active")
	case g.Transport != "gloo" || g.Seconds <= 0 || g.World != max(1, f.Ranks)+1:
		return fmt.Errorf("this fake cannot join %+v", *g)
	case f.tells(StallsInit):
		return stall(r)
	}
	return f.join(g.Address, g.Port, g.World, g.Group)
}

// join joins a sender, perhaps without the last rank.
func (f *Fake) join(address string, port, world int, group string) error {
	leaveOut := -1
	if f.tells(RankMissing) {
		leaveOut = world - 1
	}
	return f.joined.join(address, port, 1, world, group, leaveOut)
}

// stall waits until the client has gone.
func stall(r *http.Request) error {
	_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
	<-r.Context().Done()
	return context.Cause(r.Context())
}

// compare refuses tensors that are not those of the server's model, if its directory has weights.
func (f *Fake) compare(tensors []engine.TensorInfo) error {
	file, err := safetensors.Open(filepath.Join(f.Base, safetensors.SingleName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	for _, t := range tensors {
		if own, ok := file.Tensor(t.Name); !ok || !slices.Equal(own.Shape, t.Shape) {
			return fmt.Errorf("the version is of another model: %s is %v, and %v in the model", t.Name, t.Shape, own.Shape)
		}
	}
	if len(tensors) != len(file.Names()) {
		return fmt.Errorf("the version has %d tensors, and the model %d", len(tensors), len(file.Names()))
	}
	return nil
}

// vllmReceive takes a bucket. An error ends the update.
func (f *Fake) vllmReceive(r *http.Request, x *transfer) (err error) {
	defer func() { x.started = x.started && err == nil }()
	var q struct {
		Info struct {
			Tensors []engine.TensorInfo `json:"tensors"`
		} `json:"update_info"`
	}
	switch err := decode(r, &q); {
	case err != nil:
		return err
	case !x.started || !f.paused.Load():
		return errors.New("start_weight_update must be called before update_weights, and /pause before that")
	}
	if err := f.take(q.Info.Tensors); err != nil {
		return err
	}
	x.received = true
	return nil
}

// take receives a bucket, or dies of it.
func (f *Fake) take(bucket []engine.TensorInfo) error {
	if f.tells(DiesLoading) {
		f.joined.leave()
		panic(http.ErrAbortHandler) // the connection ends
	}
	return f.joined.receive(bucket)
}

// sglangDirect adds the endpoints by which SGLang takes tensors.
func (f *Fake) sglangDirect(t Host, mux *http.ServeMux) {
	dir := filepath.Join(t.TempDir(), "version")
	does := func(endpoint string, stalls Lie, do func(r *http.Request) error) {
		mux.HandleFunc("POST "+endpoint, func(w http.ResponseWriter, r *http.Request) {
			err := error(nil)
			switch {
			case f.tells(stalls):
				err = stall(r)
			case !f.tells(DoesNothing):
				err = do(r)
			}
			f.send(w, map[string]any{"success": err == nil, "message": fmt.Sprint(err)}) // a client that has gone reads nothing
		})
	}
	does("/init_weights_update_group", StallsInit, func(r *http.Request) error {
		var q struct {
			Address string `json:"master_address"`
			Port    int    `json:"master_port"`
			Offset  int    `json:"rank_offset"`
			World   int    `json:"world_size"`
			Group   string `json:"group_name"`
			Backend string
		}
		if err := decode(r, &q); err != nil || q.Backend != "gloo" || q.Offset != 1 || q.World != max(1, f.Ranks)+1 {
			return fmt.Errorf("this fake cannot join %+v: %w", q, err)
		}
		return f.join(q.Address, q.Port, q.World, q.Group)
	})
	does("/update_weights_from_distributed", StallsUpdate, func(r *http.Request) error {
		var q struct {
			Names   []string
			Dtypes  []string
			Shapes  [][]int
			Group   string `json:"group_name"`
			Format  string `json:"load_format"`
			Version string `json:"weight_version"`
			Flush   bool   `json:"flush_cache"`
		}
		switch err := decode(r, &q); {
		case err != nil:
			return err
		case f.joined.in() != q.Group || !f.paused.Load() || q.Format != "flattened_bucket" || q.Flush != (q.Version != ""):
			return fmt.Errorf("this fake, which is in %q, cannot take %+v", f.joined.in(), q)
		}
		var bucket []engine.TensorInfo
		for i, name := range q.Names {
			bucket = append(bucket, engine.TensorInfo{Name: name, DType: q.Dtypes[i], Shape: q.Shapes[i]})
		}
		if err := f.take(bucket); err != nil || q.Version == "" {
			return err
		}
		if err := f.joined.write(f.Base, dir); err != nil {
			return err
		}
		if err := f.load(r.Context(), dir); err != nil {
			return err
		}
		f.call(q.Version)
		return nil
	})
	does("/destroy_weights_update_group", StallsFinish, func(r *http.Request) error {
		var q struct {
			Group string `json:"group_name"`
		}
		if err := decode(r, &q); err != nil {
			return err
		}
		return f.joined.leaveGroup(q.Group)
	})
}
