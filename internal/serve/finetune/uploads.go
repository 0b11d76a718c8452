package finetune

import (
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/serve/openai"
	wire "github.com/trinity-go/trinity/internal/wire/finetune"
)

// uploads are files that come in parts, each a directory with its parts and its description.
type uploads struct {
	dir   string
	files *files

	mu  sync.Mutex
	all map[string]*upload
}

// upload is a file that comes in parts.
type upload struct {
	wire.Upload
	Owner        string        `json:"owner,omitempty"`
	ExpiresAfter *wire.Expires `json:"expires_after,omitempty"`
	dir          string

	mu    sync.Mutex
	parts map[string]int64 // bytes of the parts that have come, by their IDs
}

const (
	uploadAbout  = "upload.json"
	uploadPrefix = "upload_"
	partPrefix   = "part_"
	uploadLives  = 3600 // seconds, as OpenAI's API has it
	maxParts     = 1024 // of an upload
	maxUploads   = 100  // of an owner
)

// open reads the descriptions, and finds the parts that have come.
func (u *uploads) open() error {
	u.all = map[string]*upload{}
	if err := durable.MkdirAll(u.dir, 0o700); err != nil {
		return err
	}
	if err := durable.RemoveLeftoverDirs(u.dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(u.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		one := &upload{dir: filepath.Join(u.dir, e.Name())}
		if err := one.read(); err != nil {
			return fmt.Errorf("%s is damaged: %w: remove it", one.dir, err)
		}
		u.all[one.ID] = one
		u.files.expect(one.Owner, one.size())
	}
	return nil
}

func (one *upload) read() error {
	text, err := os.ReadFile(filepath.Join(one.dir, uploadAbout))
	if err == nil {
		err = json.Unmarshal(text, one)
	}
	if err == nil {
		err = durable.RemoveLeftovers(one.dir)
	}
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(one.dir)
	if err != nil {
		return err
	}
	one.parts = map[string]int64{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), partPrefix) {
			one.parts[e.Name()] = info.Size()
		}
	}
	return nil
}

// size returns the bytes that have come.
func (one *upload) size() (sum int64) {
	for _, n := range one.parts {
		sum += n
	}
	return sum
}

// save writes the description of an upload.
func (one *upload) save(dir string) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, uploadAbout), text)
}

// expire forgets uploads whose time is over. The mutex is held.
func (u *uploads) expire() {
	for id, one := range u.all {
		if one.ExpiresAt > now() || !one.mu.TryLock() { // one that is in use stays until the next time
			continue
		}
		if durable.RemoveDir(one.dir) == nil {
			delete(u.all, id)
			u.files.expect(one.Owner, -one.size())
			one.parts = nil
		}
		one.mu.Unlock()
	}
}

// create begins an upload.
func (u *uploads) create(owner string, _ *http.Request, body []byte) (any, error) {
	var o wire.UploadOrder
	if err := read(body, &o); err != nil {
		return nil, err
	}
	if o.Bytes < 1 || o.Bytes > maxFile {
		return nil, openai.Bad("bytes", "want the bytes of the file, from 1 to %d, got %d", maxFile, o.Bytes)
	}
	if o.Filename == "" {
		return nil, openai.Bad("filename", "want the name of the file")
	}
	about, err := describeFile(o.Filename, o.Purpose, o.ExpiresAfter)
	if err == nil {
		err = u.files.fits(owner, o.Bytes)
	}
	if err != nil {
		return nil, err
	}
	one := &upload{Owner: owner, ExpiresAfter: o.ExpiresAfter, parts: map[string]int64{}, Upload: wire.Upload{
		ID: uploadPrefix + strings.ToLower(rand.Text()), Object: "upload", Bytes: o.Bytes, CreatedAt: now(), ExpiresAt: now() + uploadLives,
		Filename: about.Filename, Purpose: o.Purpose, Status: wire.Pending,
	}}
	one.dir = filepath.Join(u.dir, one.ID)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.expire()
	n := 0
	for _, other := range u.all {
		if other.Owner == owner {
			n++
		}
	}
	if n >= maxUploads {
		return nil, &openai.Problem{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", Message: fmt.Sprintf(
			"the key has begun %d uploads within an hour, and there may be no more", n)}
	}
	if err := durable.WriteDir(one.dir, one.save); err != nil {
		return nil, unkept(err)
	}
	u.all[one.ID] = one
	return one.Upload, nil
}

// use calls do with an upload of an owner, which nobody else changes meanwhile.
func (u *uploads) use(owner, id string, do func(*upload) (any, error)) (any, error) {
	u.mu.Lock()
	u.expire()
	one := u.all[id]
	u.mu.Unlock()
	if one != nil && one.Owner == owner {
		one.mu.Lock()
		defer one.mu.Unlock()
		if one.parts != nil {
			return do(one)
		}
	}
	return nil, missing("there is no upload %.80q: one lives for an hour", id)
}

// isPending returns an error if an upload has ended.
func (one *upload) isPending() error {
	if one.Status != wire.Pending {
		return openai.Bad("", "the upload %s is %s", one.ID, one.Status)
	}
	return nil
}

// part takes a part, which a client sends as a form.
func (s *Server) part(w http.ResponseWriter, r *http.Request) {
	owner, id := s.opts.Owner(r.Context()), r.PathValue("id")
	name, path := partPrefix+strings.ToLower(rand.Text()), ""
	_, err := s.uploads.use(owner, id, func(one *upload) (any, error) {
		path = filepath.Join(one.dir, name)
		if len(one.parts) >= maxParts {
			return nil, openai.Bad("", "the upload %s has %d parts: send larger ones", id, maxParts)
		}
		return nil, one.isPending()
	})
	if err != nil {
		answer(w, nil, err)
		return
	}
	form, err := formIn(w, r)
	if err == nil { // the upload may be used meanwhile: by the next part, say
		err = s.files.receive(owner, path, func(w io.Writer) error {
			_, err := readForm(form, "data", w)
			return err
		})
	}
	if err != nil {
		answer(w, nil, unkept(err))
		return
	}
	reply, err := s.uploads.use(owner, id, func(one *upload) (any, error) { return s.uploads.take(one, name) })
	if err != nil {
		_ = os.Remove(path) // with the upload's directory it has gone, too
	}
	answer(w, reply, err)
}

// take counts a part that has come. One may come again, because its client did not get the answer: complete says which ones
// are the file.
func (u *uploads) take(one *upload, name string) (any, error) {
	if err := one.isPending(); err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(one.dir, name))
	if err != nil {
		return nil, unkept(err)
	}
	if sum := one.size() + info.Size(); info.Size() == 0 || sum > 2*one.Bytes || len(one.parts) >= maxParts {
		return nil, openai.Bad("data", "the part has %d bytes, and with it %d have come: the upload has %d, in at most %d parts, none empty",
			info.Size(), sum, one.Bytes, maxParts)
	}
	one.parts[name] = info.Size()
	u.files.expect(one.Owner, info.Size())
	return wire.Part{ID: name, Object: "upload.part", CreatedAt: now(), UploadID: one.ID}, nil
}

// end ends an upload. Its parts go.
func (u *uploads) end(one *upload, status wire.Status, file *wire.File) (any, error) {
	was := one.Upload
	one.Status, one.File = status, file
	if err := one.save(one.dir); err != nil {
		one.Upload = was
		return nil, unkept(err)
	}
	u.files.expect(one.Owner, -one.size())
	for name := range one.parts {
		_ = os.Remove(filepath.Join(one.dir, name)) // the rest goes with the upload
	}
	one.parts = map[string]int64{}
	return one.Upload, nil
}

// cancel ends an upload without a file.
func (u *uploads) cancel(owner string, r *http.Request, _ []byte) (any, error) {
	return u.use(owner, r.PathValue("id"), func(one *upload) (any, error) {
		if err := one.isPending(); err != nil {
			return nil, err
		}
		return u.end(one, wire.Cancelled, nil)
	})
}

// complete makes the file of an upload. A client that has not got the answer may ask again.
func (u *uploads) complete(owner string, r *http.Request, body []byte) (any, error) {
	var c wire.Completion
	if err := read(body, &c); err != nil {
		return nil, err
	}
	return u.use(owner, r.PathValue("id"), func(one *upload) (any, error) {
		if one.Status == wire.Completed {
			return one.Upload, nil
		}
		if err := one.isPending(); err != nil {
			return nil, err
		}
		id := filePrefix + strings.TrimPrefix(one.ID, uploadPrefix) // so that a file is made once, whatever ends the service
		file, err := u.files.of(owner, id)
		if err != nil {
			if err = one.check(c.PartIDs); err == nil {
				u.files.expect(owner, -one.size()) // the file counts, not its parts
				file, err = u.files.add(owner, id, func(w io.Writer) (wire.File, error) { return one.join(&c, w) })
				u.files.expect(owner, one.size())
			}
		}
		if err != nil {
			return nil, err
		}
		return u.end(one, wire.Completed, &file)
	})
}

// check returns an error if these parts are not the upload.
func (one *upload) check(ids []string) error {
	sum, seen := int64(0), map[string]bool{}
	for _, id := range ids {
		n, ok := one.parts[id]
		if !ok || seen[id] {
			return openai.Bad("part_ids", "the upload %s has no part %.80q, or it is there twice", one.ID, id)
		}
		seen[id] = true
		sum += n
	}
	if sum != one.Bytes {
		return openai.Bad("part_ids", "the parts have %d bytes, and the upload %s was to have %d: send the rest, or another upload", sum, one.ID,
			one.Bytes)
	}
	return nil
}

// join writes the parts of an upload.
func (one *upload) join(c *wire.Completion, w io.Writer) (out wire.File, err error) {
	sum := hash.Hash(md5.New())
	for _, id := range c.PartIDs {
		if err := copyTo(io.MultiWriter(w, sum), filepath.Join(one.dir, id)); err != nil {
			return out, err
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); c.MD5 != nil && !strings.EqualFold(*c.MD5, got) {
		return out, openai.Bad("md5", "the file that has come has the MD5 %s, and %.80q was to come: send it again", got, *c.MD5)
	}
	return describeFile(one.Filename, one.Purpose, one.ExpiresAfter)
}
