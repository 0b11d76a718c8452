package tinker

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// Key is a client of the service. Its name owns what it makes. A limit of 0 bounds nothing.
type Key struct {
	Name          string    `json:"name"`
	Hash          string    `json:"hash"` // SHA-256 of the key, hexadecimal
	Made          time.Time `json:"made"`
	TokensPerHour int64     `json:"tokens_per_hour,omitempty"`
	Disk          int64     `json:"disk,omitempty"`   // bytes of checkpoints
	Models        int       `json:"models,omitempty"` // in memory at once
}

// keysName is the file of all keys in the directory of a service.
const keysName = "keys.json"

var keyName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)

// ReadKeys returns the keys of a service, in the order of their names.
func ReadKeys(dir string) (all []Key, err error) {
	path := filepath.Join(dir, keysName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w: remove it and add the keys again", path, err)
	}
	return all, nil
}

// AddKey adds a key and returns it. The file has its hash alone.
func AddKey(ctx context.Context, dir string, k Key) (secret string, err error) {
	if !keyName.MatchString(k.Name) {
		return "", fmt.Errorf("the name %q of a key: want letters, digits, _, - and dots, 64 at most, and no dot first", k.Name)
	}
	secret = "tml-" + strings.ToLower(rand.Text()) // the SDK sends no key without tml-
	k.Hash, k.Made = hashOf(secret), time.Now().UTC().Truncate(time.Second)
	return secret, editKeys(ctx, dir, func(all []Key) ([]Key, error) {
		if slices.ContainsFunc(all, func(other Key) bool { return other.Name == k.Name }) {
			return nil, fmt.Errorf("there is a key %s in %s: remove it first, or choose another name", k.Name, dir)
		}
		return append(all, k), nil
	})
}

// RemoveKey removes a key. What it made stays, and belongs to the next key of that name. The file stays without the last key, too:
// it keeps the service closed.
func RemoveKey(ctx context.Context, dir, name string) error {
	return editKeys(ctx, dir, func(all []Key) ([]Key, error) {
		left := slices.DeleteFunc(slices.Clone(all), func(k Key) bool { return k.Name == name })
		if len(left) == len(all) {
			return nil, fmt.Errorf("there is no key %q in %s: trinity keys list --dir %[2]s lists them", name, dir)
		}
		return left, nil
	})
}

func editKeys(ctx context.Context, dir string, edit func([]Key) ([]Key, error)) error {
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	release, err := durable.Acquire(ctx, filepath.Join(dir, keysName+".lock"))
	if err != nil {
		return err
	}
	defer release()
	all, err := ReadKeys(dir)
	if err == nil {
		all, err = edit(all)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b Key) int { return cmp.Compare(a.Name, b.Name) })
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteSecret(filepath.Join(dir, keysName), append(data, '\n'))
}

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// keyring has the keys of a service as their file has them now.
type keyring struct {
	dir, token string // what token makes belongs to nobody, as what is made without keys; "" is no token
	say        func(string)
	account    *account

	mu    sync.Mutex
	read  fs.FileInfo // of the file that was read last
	keys  []Key
	wants bool // clients need a key: there is a file of keys, also an empty one, or there was one since the service began
}

// refresh reads the file again if it is another one.
func (r *keyring) refresh() {
	info, err := os.Stat(filepath.Join(r.dir, keysName))
	if err != nil {
		info = nil
		if !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	same := info == nil && r.read == nil ||
		info != nil && r.read != nil && os.SameFile(info, r.read) && info.ModTime().Equal(r.read.ModTime()) && info.Size() == r.read.Size()
	if same {
		return
	}
	r.read = info
	keys, err := ReadKeys(r.dir)
	if err != nil {
		r.say(err.Error() + "; the keys that were read before count")
		r.wants = true // a service that began with them has none
		return
	}
	r.keys, r.wants = keys, r.wants || info != nil
	if r.wants && len(keys) == 0 && r.token == "" {
		r.say(fmt.Sprintf("no key is left, so every client is refused: add one by trinity keys add NAME --dir %s; without keys, remove %s "+
			"and start again", r.dir, filepath.Join(r.dir, keysName)))
	}
}

// needed reports whether clients need a key.
func (r *keyring) needed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refresh()
	return r.wants || r.token != ""
}

// owner returns whose key a request has, as X-API-Key or as Bearer. It compares hashes in constant time.
func (r *keyring) owner(q *http.Request) (name string, ok bool) {
	given := q.Header.Get("X-API-Key")
	if bearer, is := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer "); given == "" && is {
		given = bearer
	}
	hash := hashOf(given)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.token != "" && subtle.ConstantTimeCompare([]byte(hash), []byte(hashOf(r.token))) == 1 {
		return "", true
	}
	for _, k := range r.keys {
		if subtle.ConstantTimeCompare([]byte(hash), []byte(k.Hash)) == 1 {
			name, ok = k.Name, true
		}
	}
	return name, ok
}

// limits returns the key of a name, or one without limits.
func (r *keyring) limits(name string) Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.keys {
		if k.Name == name {
			return k
		}
	}
	return Key{Name: name}
}

// guard lets clients pass that have a key. Without a file of keys, clients of this machine need none.
func (r *keyring) guard(next http.Handler, refuse func(w http.ResponseWriter, status int, err error)) http.Handler {
	local, keyed := web.Guard(next, "", refuse), web.Guard(next, keysName, refuse)
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		needed, owner, ok := r.needed(), "", true
		if needed {
			owner, ok = r.owner(q)
		}
		switch {
		case ok:
			r.account.countRequest(owner, q.URL.Path)
			q = q.WithContext(context.WithValue(q.Context(), ownerKey{}, owner))
		case !strings.HasPrefix(q.URL.Path, archivePath): // links are signed
			refuse(w, http.StatusUnauthorized,
				errors.New("the key is unknown: send one of the service, as X-API-Key or Bearer (TINKER_API_KEY)"))
			return
		}
		if needed {
			keyed.ServeHTTP(w, q)
			return
		}
		local.ServeHTTP(w, q)
	})
}

// NeedsKey reports whether clients need a key.
func (s *Server) NeedsKey() bool { return s.keys.needed() }

// Secret returns what only clients of the service know, or the hash of it: "" if anybody is a client. Its length tells how
// hard it is to guess.
func (s *Server) Secret() string {
	r := s.keys
	needed := r.needed()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.token != "" || !needed || len(r.keys) == 0 {
		return r.token
	}
	return r.keys[0].Hash
}

// hasRoom returns an error if a key has as many models in memory as it may.
func (k Key) hasRoom(models map[string]*model) error {
	n := 0
	for _, m := range models {
		if m.session.owner == k.Name && !m.session.hasEnded() {
			n++
		}
	}
	if k.Models > 0 && n >= k.Models {
		return &problem{status: http.StatusForbidden, text: fmt.Sprintf(
			"the key %s has %d of %d models in its sessions: end a session, such as by ServiceClient.close()", k.Name, n, k.Models)}
	}
	return nil
}

// heldBy returns the bytes of the requests of an owner that wait.
func heldBy(owner string, models []*model) (sum int) {
	for _, m := range models {
		if m.session.owner == owner {
			sum += int(m.bytes.Load())
		}
	}
	return sum
}
