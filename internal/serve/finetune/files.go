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

	mu     sync.Mutex
	all    map[string]*file
	coming map[string]int64 // bytes of an owner that arrive, or wait for the rest of an upload
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
	f.all, f.coming = map[string]*file{}, map[string]int64{}
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
		return nil, unkept(err)
	}
	delete(f.all, id)
	return map[string]any{"id": id, "object": "file", "deleted": true}, nil
}

// filePrefix begins the IDs of files.
const filePrefix = "file-"

func newFileID() string { return filePrefix + strings.ToLower(rand.Text()) }

// add keeps a file. write writes its bytes, and returns its name and purpose.
func (f *files) add(owner, id string, write func(w io.Writer) (wire.File, error)) (wire.File, error) {
	one := &file{Owner: owner}
	err := durable.WriteDir(filepath.Join(f.dir, id), func(dir string) (err error) {
		err = f.receive(owner, filepath.Join(dir, fileBytes), func(w io.Writer) (err error) {
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
		text, err := json.Marshal(one)
		if err != nil {
			return err
		}
		return durable.WriteFile(filepath.Join(dir, fileAbout), text)
	})
	if err != nil {
		return wire.File{}, unkept(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[id] = one
	return one.File, nil
}

// unkept returns the error of a request that the disk refuses. Clients ask again.
func unkept(err error) error {
	if errors.As(err, new(*openai.Problem)) {
		return err
	}
	why := &fs.PathError{}
	if errors.As(err, &why) { // clients need not know where
		err = why.Err
	}
	return &openai.Problem{Status: http.StatusServiceUnavailable, Code: "disk", Message: fmt.Sprintf("the service cannot keep this: %v", err)}
}

// receive writes a file that arrives. Its bytes count from the first, so that an owner's requests together take no more
// than the key may have.
func (f *files) receive(owner, path string, write func(w io.Writer) error) error {
	a := &arriving{files: f, owner: owner}
	defer func() { f.expect(owner, -a.counted) }()
	return durable.Replace(path, func(w io.Writer) error {
		a.to = w
		return write(a)
	})
}

// arriving is a file that arrives.
type arriving struct {
	files            *files
	owner            string
	to               io.Writer
	written, counted int64
}

// arrivingStep is by how many bytes a file counts that arrives.
const arrivingStep = 8 << 20

// Write implements [io.Writer].
func (a *arriving) Write(p []byte) (int, error) {
	for a.written += int64(len(p)); a.counted < a.written; {
		least := a.written - a.counted
		step := max(least, min(arrivingStep, a.counted))
		if a.files.fits(a.owner, step) != nil {
			if step = least; a.files.fits(a.owner, step) != nil { // the rest may be less than a step
				return 0, a.files.fits(a.owner, step)
			}
		}
		a.counted += step
		a.files.expect(a.owner, step)
	}
	n, err := a.to.Write(p)
	if err != nil {
		err = unkept(err)
	}
	return n, err
}

// expect counts bytes that arrive.
func (f *files) expect(owner string, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.coming[owner] += n
}

// used returns the bytes of an owner's files, and of those that arrive.
func (f *files) used(owner string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.coming[owner]
	for _, one := range f.all {
		if one.Owner == owner {
			sum += one.Bytes
		}
	}
	return sum
}

// upload takes a file that a client sends as a form.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	form, err := formIn(w, r)
	if err != nil {
		answer(w, nil, err)
		return
	}
	reply, err := s.files.add(s.opts.Owner(r.Context()), newFileID(), func(w io.Writer) (wire.File, error) {
		fields, err := readForm(form, "file", w)
		if err != nil {
			return wire.File{}, err
		}
		return describe(fields)
	})
	answer(w, reply, err)
}

// formIn returns the form of a request with a file, which may take its time.
func formIn(w http.ResponseWriter, r *http.Request) (*multipart.Reader, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(sending)) // else the server's own, which is shorter
	_ = control.SetWriteDeadline(time.Now().Add(sending + time.Minute))
	r.Body = http.MaxBytesReader(w, r.Body, maxFile+maxField<<4)
	form, err := r.MultipartReader()
	if err != nil {
		return nil, openai.Bad("file", "want a form (multipart/form-data) with the bytes of a file: %v", err)
	}
	return form, nil
}

// maxFields bounds the fields of a form.
const maxFields = 16

// readForm writes the file of a form, which is the field named content, to w. It returns the fields, and the file's name as
// that of content.
func readForm(form *multipart.Reader, content string, w io.Writer) (fields map[string]string, err error) {
	fields = map[string]string{}
	for {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(err)
		}
		name := part.FormName()
		if _, twice := fields[name]; twice {
			return nil, openai.Bad(name, "the form has %.40q twice", name)
		}
		if len(fields) == maxFields {
			return nil, openai.Bad("", "the form has more than %d fields", maxFields)
		}
		if name == content {
			n, err := io.Copy(w, io.LimitReader(part, maxFile+1))
			if err != nil {
				return nil, broken(err)
			}
			if n > maxFile {
				return nil, tooLarge()
			}
			fields[name] = part.FileName()
			continue
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		if err != nil {
			return nil, broken(err)
		}
		if len(text) > maxField {
			return nil, openai.Bad(name, "more than %d bytes", maxField)
		}
		fields[name] = string(text)
	}
	if _, ok := fields[content]; !ok {
		return nil, openai.Bad(content, "the form has no %s", content)
	}
	return fields, nil
}

// describe returns the description of a file by the fields of its form. ExpiresAt has the seconds that it lives.
func describe(fields map[string]string) (out wire.File, err error) {
	seconds, expires := fields["expires_after[seconds]"]
	var after *wire.Expires
	if expires {
		after = &wire.Expires{Anchor: fields["expires_after[anchor]"]}
		if after.Seconds, err = strconv.ParseInt(seconds, 10, 64); err != nil {
			after.Seconds = 0 // which is refused
		}
	}
	return describeFile(fields["file"], fields["purpose"], after)
}

// describeFile returns the description of a file. ExpiresAt has the seconds that it lives.
func describeFile(name, purpose string, after *wire.Expires) (out wire.File, err error) {
	out.Filename, out.Purpose = filepath.Base(strings.ReplaceAll(safetext.Printable(name), `\`, "/")), purpose
	if !slices.Contains(purposes, purpose) {
		return out, openai.Bad("purpose", "want one of %s, got %.40q", strings.Join(purposes, ", "), purpose)
	}
	if after == nil {
		return out, nil
	}
	if after.Seconds < 3600 || after.Seconds > 2592000 || after.Anchor != "created_at" {
		return out, openai.Bad("expires_after", "want the anchor created_at, and seconds from 3600 to 2592000")
	}
	lives := after.Seconds
	out.ExpiresAt = &lives
	return out, nil
}

func tooLarge() error {
	return &openai.Problem{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Param: "file",
		Message: fmt.Sprintf("the file has more than %d MiB: send less data", maxFile>>20)}
}

// broken is about a form that does not arrive whole.
func broken(err error) error {
	if errors.As(err, new(*openai.Problem)) { // of who takes it
		return err
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return tooLarge()
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
