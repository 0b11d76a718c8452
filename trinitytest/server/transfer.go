package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/internal/model/safetensors"
)

// The lies about a transfer.
const (
	DamagesFiles Lie = "reads other bytes than those that it gets"
	StallsInit   Lie = "never ends init_weight_transfer_engine"
	StallsStart  Lie = "never ends start_weight_update"
	StallsUpdate Lie = "never ends update_weights"
	StallsFinish Lie = "never ends finish_weight_update"
	DoesNothing  Lie = "answers 200 to all phases of a transfer and does nothing"
	OneShort     Lie = "loads all tensors of new weights but one"
	RankMissing  Lie = "has a rank that never joins a group"
	DiesLoading  Lie = "ends a connection in the middle of an update"
	ResetsNone   Lie = "answers 200 to a reset and does nothing"
)

// shortTensor is the tensor that OneShort leaves as it is.
const shortTensor = "model.layers.0.mlp.down_proj.weight"

// transfer is the state of vLLM's weight transfer with the plug-in trinity_files.
type transfer struct {
	dir        string // of the files that it fetches
	url, token string
	started    bool
	received   bool
	group      *vllmGroup // nil: it fetches files
}

// vllmTransfer adds the phases of a transfer.
func (f *Fake) vllmTransfer(t Host, mux *http.ServeMux) {
	x := &transfer{dir: filepath.Join(t.TempDir(), "version")}
	phase := func(name string, stalls Lie, do func(r *http.Request) error) {
		mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case f.tells(stalls) && stalls != "":
				_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
				<-r.Context().Done()
			case f.tells(DoesNothing):
				f.send(w, map[string]string{"message": name})
			default:
				if err := do(r); err != nil {
					refuse(w, http.StatusInternalServerError, err.Error())
					return
				}
				f.send(w, map[string]string{"message": name})
			}
		})
	}
	phase("init_weight_transfer_engine", "", func(r *http.Request) error {
		var q struct {
			Info struct {
				URL     string     `json:"url"`
				Token   string     `json:"token"`
				Seconds float64    `json:"seconds"`
				Channel *vllmGroup `json:"channel"`
			} `json:"init_info"`
		}
		if err := decode(r, &q); err != nil {
			return err
		}
		x.url, x.token, x.group = q.Info.URL, q.Info.Token, q.Info.Channel
		return f.vllmJoin(r, x)
	})
	phase("start_weight_update", StallsStart, func(*http.Request) error {
		if x.started {
			return errors.New("start_weight_update called while a weight update is already active")
		}
		x.started, x.received = true, false
		return nil
	})
	phase("update_weights", StallsUpdate, func(r *http.Request) error {
		if x.joins() {
			return f.vllmReceive(r, x)
		}
		return f.update(r, x)
	})
	phase("finish_weight_update", StallsFinish, func(r *http.Request) error {
		var q struct {
			Version string `json:"weight_version"`
		}
		if err := decode(r, &q); err != nil || !x.received {
			return fmt.Errorf("nothing has been received: %w", err)
		}
		x.started, x.received = false, false
		if x.joins() {
			if err := f.joined.write(f.Base, x.dir); err != nil {
				return err
			}
			f.joined.leave()
		}
		if err := f.load(r.Context(), x.dir); err != nil {
			return err
		}
		f.call(q.Version)
		return nil
	})
}

// update fetches the files of a version. An error ends the update.
func (f *Fake) update(r *http.Request, x *transfer) (err error) {
	defer func() { x.started = x.started && err == nil }()
	var q struct {
		Info struct {
			Digest string
			Files  []struct {
				Name, SHA256 string
				Size         int64
			}
		} `json:"update_info"`
	}
	switch err := decode(r, &q); {
	case err != nil:
		return err
	case !x.started || !f.isPaused():
		return errors.New("start_weight_update must be called before update_weights, and /pause before that")
	case q.Info.Digest == "":
		return errors.New("update_info has no digest")
	}
	if err := os.RemoveAll(x.dir); err != nil {
		return err
	}
	for _, file := range q.Info.Files {
		sum := sha256.New()
		if f.tells(DamagesFiles) {
			sum.Write([]byte{1})
		}
		size, err := x.get(r.Context(), file.Name, sum)
		if err != nil {
			return err
		}
		if size != file.Size || hex.EncodeToString(sum.Sum(nil)) != file.SHA256 {
			return fmt.Errorf("%s of the version arrived damaged", file.Name)
		}
	}
	x.received = true
	return nil
}

// get fetches a file with the token of the run. sum gets its bytes as well.
func (x *transfer) get(ctx context.Context, name string, sum io.Writer) (size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.url+"/"+name, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+x.token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s of the version: status %s", name, resp.Status)
	}
	path := filepath.Join(x.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return 0, err
	}
	out, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(io.MultiWriter(out, sum), resp.Body)
	return size, errors.Join(err, out.Close())
}

// shorten returns a directory with the model of dir but for one tensor, which is that of the model
// loaded before. It is dir itself before the first one and if its model has another form.
func (f *Fake) shorten(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", err
	}
	before := f.model
	f.model = data
	if !f.tells(OneShort) || before == nil {
		return dir, nil
	}
	mixed, err := mix(data, before)
	if err != nil {
		return "", err
	}
	f.model = mixed
	to := dir + "-short"
	return to, errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(dir)), os.WriteFile(filepath.Join(to, "model.safetensors"), mixed, 0o644))
}

// mix returns a model with one tensor of another one.
func mix(model, other []byte) ([]byte, error) {
	model = append([]byte{}, model...)
	to, err := safetensors.Parse("model", model)
	if err != nil {
		return nil, err
	}
	from, err := safetensors.Parse("other", other)
	if err != nil {
		return nil, err
	}
	new, ok := to.Tensor(shortTensor)
	old, had := from.Tensor(shortTensor)
	if !ok || !had {
		return nil, fmt.Errorf("the model has no %s", shortTensor)
	}
	copy(new.Data, old.Data)
	return model, nil
}

// checker adds the endpoint that tells digests, and that resets what has them. answer writes the digests, or
// nil after a reset.
func (f *Fake) checker(mux *http.ServeMux, path, reset string, o Options, answer func(w http.ResponseWriter, sums map[string]string)) {
	if o.Model != "" {
		f.model, _ = os.ReadFile(filepath.Join(o.Model, safetensors.SingleName)) // else it tells no digests
	}
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Action string }
		if !read(w, r, &q) {
			return
		}
		sums, err := f.digests(o.CPU)
		if q.Action == reset && err == nil {
			sums, err = nil, f.reset()
		}
		if err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		answer(w, sums)
	})
}

// reset overwrites the tensors that have digests with zeros.
func (f *Fake) reset() error {
	if err := f.sleep.hasWeights(); err != nil || f.tells(ResetsNone) {
		return err
	}
	f.model = append([]byte{}, f.model...)
	model, err := safetensors.Parse("model", f.model)
	if err != nil {
		return err
	}
	for _, name := range model.Names() {
		t, _ := model.Tensor(name)
		clear(t.Data)
	}
	return nil
}

// digests are the digests of the tensors of the model that was loaded last. packed says that the server
// keeps the matrices in another form, and has the digest of nothing for them.
func (f *Fake) digests(packed bool) (map[string]string, error) {
	if err := f.sleep.hasWeights(); err != nil {
		return nil, err
	}
	model, err := safetensors.Parse("model", f.model)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, name := range model.Names() {
		t, _ := model.Tensor(name)
		data := append([]byte{}, t.Data...)
		if f.tells(OtherBit) && name == shortTensor {
			data[0] ^= 1
		}
		if packed && len(t.Shape) > 1 {
			data = nil
		}
		sum := sha256.Sum256(data)
		all[name] = hex.EncodeToString(sum[:])
	}
	return all, nil
}
