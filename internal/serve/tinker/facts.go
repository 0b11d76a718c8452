package tinker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wire/tinker"
)

// facts are what a checkpoint says of itself beside its recipe. Lists are made of them, also after a restart.
type facts struct {
	Owner    string            `json:"owner,omitempty"` // the name of the key that wrote it
	Time     time.Time         `json:"time"`
	Bytes    int64             `json:"bytes"`
	Public   bool              `json:"public,omitempty"` // every key may read it
	Expires  *time.Time        `json:"expires,omitempty"`
	Metadata map[string]string `json:"user_metadata,omitempty"`
	Run      map[string]string `json:"run_metadata,omitempty"`
	Session  sessionFacts      `json:"session"`
}

// sessionFacts are what a checkpoint says of the session that wrote it.
type sessionFacts struct {
	Made     time.Time         `json:"made"`
	Name     string            `json:"display_name,omitempty"`
	Metadata map[string]string `json:"user_metadata,omitempty"`
	Project  string            `json:"project,omitempty"`
}

// facts returns those of a checkpoint that is written now.
func (m *model) facts(ttl *int64, metadata map[string]string) (facts, error) {
	x, size := m.session, 0
	for k, v := range metadata {
		size += len(k) + len(v)
	}
	expires, err := expiry(ttl)
	if err == nil {
		err = isShort("user_metadata", size)
	}
	return facts{
		Owner: x.owner, Time: time.Now().UTC(), Expires: expires, Metadata: metadata, Run: m.about,
		Session: sessionFacts{Made: x.made, Name: x.name, Metadata: x.metadata, Project: x.project},
	}, err
}

// leastTTL and mostTTL are the bounds of the API, in seconds.
const leastTTL, mostTTL = 3600, 10 * 366 * 24 * 3600

// expiry returns the end of a time to live, nil for none.
func expiry(ttl *int64) (*time.Time, error) {
	if ttl == nil {
		return nil, nil
	}
	if *ttl < leastTTL || *ttl > mostTTL {
		return nil, bad("ttl_seconds is %d: want %d (1 hour) to %d (10 years), or null", *ttl, leastTTL, mostTTL)
	}
	at := time.Now().UTC().Add(time.Duration(*ttl) * time.Second)
	return &at, nil
}

// describe writes what the checkpoint says of itself into a directory.
func (c *checkpoint) describe(dir string) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, madeName), data)
}

// listed returns the checkpoint as lists have it.
func (c *checkpoint) listed() tinker.Checkpoint {
	kind := map[string]string{tinker.Weights: "training", tinker.SamplerWeights: "sampler", tinker.ExternalWeights: "external"}[c.path.Kind]
	return tinker.Checkpoint{
		ID: c.path.Kind + "/" + c.path.Name, Type: kind, Time: c.Time, Path: c.path.String(), Size: c.Bytes, Public: c.Public,
		UserMetadata: c.Metadata, Expires: c.Expires, BaseModel: c.BaseModel,
	}
}

// all returns the checkpoints that are there, the newest first, with those of sampling sessions. What cannot be read is no
// checkpoint.
func (s *store) all() []*checkpoint {
	var all []*checkpoint
	files, _ := filepath.Glob(filepath.Join(s.dir, "*", "*", "*", madeName)) // the pattern is well formed
	for _, file := range files {
		rest, name := filepath.Split(filepath.Dir(file))
		rest, kind := filepath.Split(filepath.Clean(rest))
		p := tinker.Path{Run: strings.ReplaceAll(filepath.Base(rest), "_", ":"), Kind: kind, Name: name}
		if c, err := s.find(p); err == nil && !strings.HasPrefix(name, ".") {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *checkpoint) int {
		return cmp.Or(b.Time.Compare(a.Time), strings.Compare(a.path.String(), b.path.String()))
	})
	return all
}

// named returns the checkpoints of clients that an owner has or, if accessible, may read.
func (s *store) named(owner string, accessible bool) []*checkpoint {
	return slices.DeleteFunc(s.all(), func(c *checkpoint) bool {
		return c.path.Kind == ofSessions || c.Owner != owner && !(accessible && c.Public)
	})
}

// readable returns a checkpoint that an owner may read.
func (s *store) readable(owner, text string) (*checkpoint, error) {
	p, err := tinker.ParsePath(text)
	if err != nil {
		return nil, bad("%v", err)
	}
	c, err := s.find(p)
	if err == nil && c.Owner != owner && !c.Public {
		return nil, missing("there is no checkpoint %s", p)
	}
	return c, err
}

// owned returns a checkpoint that an owner has.
func (s *store) owned(owner string, p tinker.Path) (*checkpoint, error) {
	c, err := s.readable(owner, p.String())
	if err == nil && c.Owner != owner {
		return nil, &problem{status: http.StatusForbidden, text: fmt.Sprintf("%s is another's: only who wrote it may change it", p)}
	}
	return c, err
}

// change changes what a checkpoint of an owner says of itself.
func (s *store) change(owner string, p tinker.Path, edit func(*facts)) error {
	defer s.changes.take(s.dirOf(p))()
	c, err := s.owned(owner, p)
	if err != nil {
		return err
	}
	edit(&c.facts)
	return c.describe(c.dir)
}

// delete removes a checkpoint of an owner.
func (s *store) delete(owner string, p tinker.Path) error {
	defer s.changes.take(s.dirOf(p))()
	c, err := s.owned(owner, p)
	if err != nil {
		return err
	}
	return s.remove(c)
}

// remove removes a checkpoint, whose directory is locked.
func (s *store) remove(c *checkpoint) error {
	defer s.disk.changed()
	return durable.RemoveDir(c.dir)
}

// expire removes the checkpoints whose time has passed.
func (s *store) expire(now time.Time, say func(string)) {
	for _, c := range s.all() {
		if !c.hasExpired(now) {
			continue
		}
		if err := s.expireOne(c.path, now); err != nil {
			say(fmt.Sprintf("%s has expired, and stays: %v", c.path, err))
		}
	}
}

func (c *checkpoint) hasExpired(now time.Time) bool {
	return c.Expires != nil && !now.Before(*c.Expires)
}

// expireOne removes a checkpoint, unless it is another one by now.
func (s *store) expireOne(p tinker.Path, now time.Time) error {
	defer s.changes.take(s.dirOf(p))()
	c, err := s.find(p)
	switch {
	case isMissing(err) || err == nil && !c.hasExpired(now):
		return nil
	case err != nil:
		return err
	}
	return s.remove(c)
}

// noAccessTokens refuses what the hosted service has for checkpoints of other accounts.
var noAccessTokens = bad("weights_access_token is not in this version: publish the checkpoint, and every key may read it")

// copy copies a checkpoint into a run of its own. The files are shared. The same call again, by its
// X-Idempotency-Key, gives the same copy.
func (s *store) copy(owner string, in *tinker.CopyWeights, run string) (*checkpoint, error) {
	p, err := tinker.ParsePath(in.SourcePath)
	if err != nil {
		return nil, bad("%v", err)
	}
	source := s.dirOf(p)
	p.Run = run
	defer s.changes.take(source, s.dirOf(p))()
	from, err := s.readable(owner, in.SourcePath)
	if err != nil {
		return nil, err
	}
	c := &checkpoint{recipe: from.recipe, facts: from.facts, Weights: from.Weights, Written: from.Written, path: p, dir: s.dirOf(p)}
	if c.Expires, err = expiry(in.TTLSeconds); err != nil {
		return nil, err
	}
	if there, err := s.find(p); err == nil {
		if there.Written != from.Written {
			return nil, conflict("there is another checkpoint %s: copy into another run", p)
		}
		return there, nil
	}
	c.Owner, c.Public, c.Time = owner, false, time.Now().UTC()
	c.Session = sessionFacts{Made: c.Time, Project: in.ProjectID}
	if err := s.fits(owner, c.Bytes); err != nil {
		return nil, &problem{status: http.StatusForbidden, text: err.Error()}
	}
	defer s.disk.changed()
	if err := durable.MkdirAll(filepath.Dir(c.dir), 0o755); err != nil {
		return nil, &ownError{err}
	}
	err = durable.WriteDir(c.dir, func(temp string) error {
		files, err := os.ReadDir(from.dir)
		if err != nil {
			return err
		}
		for _, f := range files {
			err = errors.Join(err, os.Link(filepath.Join(from.dir, f.Name()), filepath.Join(temp, f.Name())))
		}
		if err != nil {
			return err
		}
		return c.describe(temp)
	})
	if err != nil {
		return nil, &ownError{err}
	}
	return c, nil
}

// texts returns the metadata of a client, which are texts.
func texts(of map[string]any) (map[string]string, error) {
	if len(of) == 0 {
		return nil, nil
	}
	out, size := map[string]string{}, 0
	for k, v := range of {
		out[k] = fmt.Sprint(v)
		size += len(k) + len(out[k])
	}
	return out, isShort("user_metadata", size)
}

// isShort returns an error for a text of a client that is too long to be kept.
func isShort(what string, size int) error {
	if size > maxAbout {
		return bad("%s has %d bytes: want %d at most", what, size, maxAbout)
	}
	return nil
}
