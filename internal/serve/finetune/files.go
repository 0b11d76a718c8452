package finetune

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// files are the files of clients, each a directory with its bytes and its description.
type files struct {
	dir  string
	fits func(owner string, more int64) error

	mu  sync.Mutex
	all map[string]*file
}

type file struct {
	wire.File
	Owner string `json:"owner,omitempty"`
}

const (
	fileBytes = "content"
	fileAbout = "file.json"
	maxFile   = 512 << 20     // bytes, as OpenAI's API has it
	maxField  = 1 << 10       // bytes of a field of a form
	sending   = 4 * time.Hour // for which a file may arrive
)

// Purposes of files that clients send. Jobs read fine-tune alone.
var purposes = []string{"fine-tune", "assistants", "batch", "vision", "user_data", "evals"}

const resultPurpose = "fine-tune-results"

// open reads the descriptions.
func (f *files) open() error {
	f.all = map[string]*file{}
	if err := durable.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	if err := durable.RemoveLeftoverDirs(f.dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		one, text := &file{}, []byte(nil)
		if text, err = os.ReadFile(filepath.Join(f.dir, e.Name(), fileAbout)); err == nil {
			err = json.Unmarshal(text, one)
		}
		if err != nil {
			return fmt.Errorf("%s is damaged: %w: remove it", filepath.Join(f.dir, e.Name()), err)
		}
		f.all[one.ID] = one
	}
	f.expire()
	return nil
}

// expire removes files whose time is over. The mutex is held, or nobody else has f yet.
func (f *files) expire() {
	for id, one := range f.all {
		if one.ExpiresAt != nil && *one.ExpiresAt <= now() && durable.RemoveDir(filepath.Join(f.dir, id)) == nil {
			delete(f.all, id)
		}
	}
}

// of returns a file of an owner.
func (f *files) of(owner, id string) (wire.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	if one := f.all[id]; one != nil && one.Owner == owner {
		return one.File, nil
	}
	return wire.File{}, missing("there is no file %.80q", id)
}

// path returns where the bytes of a file are.
func (f *files) path(id string) string { return filepath.Join(f.dir, id, fileBytes) }

// list returns the files of an owner, the newest first unless the client wants another order.
func (f *files) list(owner string, r *http.Request) (any, error) {
	purpose, order := r.URL.Query().Get("purpose"), r.URL.Query().Get("order")
	if order != "" && order != "asc" && order != "desc" {
		return nil, openai.Bad("order", "want asc or desc, got %.40q", order)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expire()
	all := []wire.File{}
	for _, one := range f.all {
		if one.Owner == owner && (purpose == "" || one.Purpose == purpose) {
			all = append(all, one.File)
		}
	}
	slices.SortFunc(all, func(a, b wire.File) int {
		return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	if order != "asc" {
		slices.Reverse(all)
	}
	return page(r, all, 10000, 10000, func(one wire.File) string { return one.ID })
}

// remove deletes a file. Jobs that have begun with it keep a copy.
func (f *files) remove(owner, id string) (any, error) {
	if _, err := f.of(owner, id); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := durable.RemoveDir(filepath.Join(f.dir, id)); err != nil {
		return nil, err
	}
	delete(f.all, id)
	return map[string]any{"id": id, "object": "file", "deleted": true}, nil
}

// add keeps a file. write writes its bytes, and returns its name and purpose.
func (f *files) add(owner string, write func(w io.Writer) (wire.File, error)) (wire.File, error) {
	one := &file{Owner: owner}
	id := "file-" + strings.ToLower(rand.Text())
	err := durable.WriteDir(filepath.Join(f.dir, id), func(dir string) (err error) {
		err = durable.Replace(filepath.Join(dir, fileBytes), func(w io.Writer) (err error) {
			one.File, err = write(w)
			return err
		})
		if err != nil {
			return err
		}
		info, err := os.Stat(filepath.Join(dir, fileBytes))
		if err != nil {
			return err
		}
		one.ID, one.Object, one.Bytes, one.CreatedAt, one.Status = id, "file", info.Size(), now(), "processed"
		if seconds := one.ExpiresAt; seconds != nil {
			*seconds += one.CreatedAt
		}
		if err := f.fits(owner, one.Bytes); err != nil {
			return err
		}
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		return durable.WriteFile(filepath.Join(dir, fileAbout), text)
	})
	if err != nil {
		return wire.File{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[id] = one
	return one.File, nil
}

// used returns the bytes of an owner's files.
func (f *files) used(owner string) (sum int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.all {
		if one.Owner == owner {
			sum += one.Bytes
		}
	}
	return sum
}

// upload takes a file that a client sends as a form.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(sending)) // else the server's own, which is shorter
	_ = control.SetWriteDeadline(time.Now().Add(sending + time.Minute))
	r.Body = http.MaxBytesReader(w, r.Body, maxFile+maxField<<4)
	form, err := r.MultipartReader()
	if err != nil {
		answer(w, nil, openai.Bad("file", "want a form (multipart/form-data) with file and purpose: %v", err))
		return
	}
	reply, err := s.files.add(s.opts.Owner(r.Context()), func(w io.Writer) (wire.File, error) { return readForm(form, w) })
	answer(w, reply, err)
}

// readForm writes the file of a form to w.
func readForm(form *multipart.Reader, w io.Writer) (out wire.File, err error) {
	fields := map[string]string{}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return out, broken(err)
		}
		name := part.FormName()
		if _, twice := fields[name]; twice {
			return out, openai.Bad(name, "the form has %.40q twice", name)
		}
		if name == "file" {
			n, err := io.Copy(w, io.LimitReader(part, maxFile+1))
			if err != nil {
				return out, broken(err)
			}
			if n > maxFile {
				return out, &openai.Problem{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Param: "file",
					Message: fmt.Sprintf("the file has more than %d MiB: send less data", maxFile>>20)}
			}
			fields[name] = part.FileName()
			continue
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if err != nil {
			return out, broken(err)
		}
		if len(text) > maxField {
			return out, openai.Bad(name, "more than %d bytes", maxField)
		}
		fields[name] = string(text)
	}
	return describe(fields)
}

// describe returns the description of a file by the fields of its form. ExpiresAt has the seconds that it lives.
func describe(fields map[string]string) (out wire.File, err error) {
	name, ok := fields["file"]
	if !ok {
		return out, openai.Bad("file", "the form has no file")
	}
	out.Filename = filepath.Base(strings.ReplaceAll(safetext.Printable(name), `\`, "/"))
	if out.Purpose = fields["purpose"]; !slices.Contains(purposes, out.Purpose) {
		return out, openai.Bad("purpose", "want one of %s, got %.40q", strings.Join(purposes, ", "), out.Purpose)
	}
	if text, ok := fields["expires_after[seconds]"]; ok {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 3600 || seconds > 2592000 || fields["expires_after[anchor]"] != "created_at" {
			return out, openai.Bad("expires_after", "want the anchor created_at, and seconds from 3600 to 2592000")
		}
		out.ExpiresAt = &seconds
	}
	return out, nil
}

// broken is about a form that does not arrive whole.
func broken(err error) error {
	if errors.As(err, new(*http.MaxBytesError)) {
		return &openai.Problem{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Param: "file",
			Message: fmt.Sprintf("the file has more than %d MiB: send less data", maxFile>>20)}
	}
	return openai.Bad("file", "the form ends early or is damaged: %v", err)
}

// content sends the bytes of a file.
func (s *Server) content(w http.ResponseWriter, r *http.Request) {
	one, err := s.files.of(s.opts.Owner(r.Context()), r.PathValue("id"))
	var data *os.File
	if err == nil {
		data, err = os.Open(s.files.path(one.ID))
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = missing("there is no file %.80q", r.PathValue("id"))
	}
	if err != nil {
		answer(w, nil, err)
		return
	}
	defer data.Close()
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(sending))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(one.Bytes, 10))
	_, _ = io.Copy(w, data) // a client that has gone asks again
}
