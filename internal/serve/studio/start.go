package studio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/safetext"
)

// The studio keeps what it starts in files of its own below its directory, never in a run's.
const (
	ownDir     = ".studio"
	startFile  = "start.json"  // a run's configuration as it was written, and its settings
	configFile = "config.yaml" // and as `trinity run` reads it
	logFile    = "run.log"     // what the run printed
)

const rootKey = "checkpoint_root_dir"

// starts starts and stops runs. It has the processes that live of those that it has started, by the ID of the run.
type starts struct {
	runs      *runs
	program   []string   // as of [Server.Program]
	one       sync.Mutex // is started at a time: two would write the same files
	signalled sync.Map   // when the processes that were told to stop had begun their run, by number

	mu      sync.Mutex
	running map[string]*child
}

type child struct {
	*os.Process
	ended chan struct{}
}

// endingTime is how long a process may take to end after its run has.
const endingTime = 5 * time.Second

// ended waits until the process of a run has ended that may be printing its last lines.
func (s *starts) ended(id string) error {
	s.mu.Lock()
	c := s.running[id]
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c.ended:
		return nil
	case <-time.After(endingTime):
		return mistake{fmt.Errorf("process %d of the run %q is at work", c.Pid, id)}
	}
}

// add keeps the process of a run until it ends.
func (s *starts) add(id string, cmd *exec.Cmd) {
	c := &child{cmd.Process, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[id] = c
	go func() {
		_ = cmd.Wait() // the log tells how it ended
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.running[id] == c {
			delete(s.running, id)
		}
		close(c.ended)
	}()
}

// start starts a run as a process of its own, which outlives the studio.
func (s *starts) start(_ *http.Request, in configRequest) (any, error) {
	in, err := s.runs.wholeOf(in)
	if err != nil {
		return nil, err
	}
	id, cfg, err := s.place(&in)
	if err != nil {
		return nil, err
	}
	return s.launch(id, in, func() error {
		if entries, err := os.ReadDir(cfg.CheckpointJobDir); err == nil && len(entries) > 0 {
			return mistake{cfg.At("name", fmt.Sprintf("there is a run %q: give another name, or resume that run", id), "")}
		}
		return nil
	})
}

// resume starts a run again with the configuration that it had.
func (s *starts) resume(r *http.Request, _ struct{}) (any, error) {
	id := r.PathValue("run")
	in, started, err := s.runs.writtenFor(id)
	if err != nil {
		return nil, err
	}
	if f, err := s.runs.open(id); err == nil { // without one it failed before it had a directory
		if run, _ := f.summary(); run != nil && (run.State == Running || run.State == Waiting) {
			return nil, mistake{fmt.Errorf("the run %q is %s", id, run.State)}
		}
		if started == "" {
			in.Overrides = rootFor(&in, f.dir)
		}
	}
	want := started
	if want == "" {
		want = id
	}
	at, _, err := s.place(&in)
	if err != nil {
		return nil, err
	}
	if at != want {
		return nil, mistake{fmt.Errorf("%q has kept a configuration that belongs to %q: resume it with the command that started it", id, at)}
	}
	return s.launch(at, in, func() error { return nil })
}

// rootFor returns the setting with which a configuration writes to the directory that its run has.
func rootFor(in *configRequest, dir string) []string {
	cfg, err := in.parse()
	if err != nil {
		return nil // place reports it
	}
	root, ok := strings.CutSuffix(dir, string(filepath.Separator)+filepath.Join(cfg.Project, cfg.Group, cfg.Name))
	if !ok {
		return nil
	}
	return []string{rootSetting(root)}
}

func rootSetting(dir string) string {
	return fmt.Sprintf("checkpoint_root_dir=%q", filepath.ToSlash(dir))
}

// place returns the ID of the run of a configuration. It must be below the studio's directory, where a
// configuration writes that names no other.
func (s *starts) place(in *configRequest) (id string, cfg *config.Config, err error) {
	root, err := s.runs.root()
	if err != nil {
		return "", nil, err
	}
	if err := withoutStars(in.Text); err != nil {
		return "", nil, mistake{err}
	}
	if cfg, err = in.parse(); err == nil && !cfg.IsSet(rootKey) {
		in.Overrides = append(slices.Clone(in.Overrides), rootSetting(root))
		cfg, err = in.parse()
	}
	if err != nil {
		return "", nil, mistake{errors.New(firstLine(err))}
	}
	dir, err := realPath(cfg.CheckpointJobDir)
	if err != nil {
		return "", nil, err
	}
	rel, err := filepath.Rel(root, dir)
	id = filepath.ToSlash(rel)
	if err != nil || rel == "." || !filepath.IsLocal(rel) || strings.Contains("/"+id, "/.") {
		return "", nil, mistake{cfg.At(rootKey,
			fmt.Sprintf("the run would be in %s, which this studio does not show: want a directory below %s", dir, root), "")}
	}
	return id, cfg, nil
}

// realPath returns a path without links, of which the end need not exist yet.
func realPath(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(name) != name {
		real, err = realPath(filepath.Dir(name))
		return filepath.Join(real, filepath.Base(name)), err
	}
	return real, err
}

// withoutStars returns an error if a text has stars in place of a secret, or of the password of a URL.
func withoutStars(text string) error {
	var tree map[string]any
	if yaml.Unmarshal([]byte(text), &tree) != nil {
		return nil // the parser of configurations reports it
	}
	for key, value := range config.Flatten(tree) {
		text, _ := value.(string)
		if word := strings.ReplaceAll(text, "***", "x"); text == "***" || word != text && safetext.Hidden(word) == text {
			return fmt.Errorf("%s is hidden: write it, or ${oc.env:NAME} for a variable of the studio's environment", key)
		}
	}
	return nil
}

// launch starts the process of a run. It has no terminal and a session of its own, so neither Ctrl-C
// at the studio nor the studio's end reaches it. may returns why the run must not start now. No other
// start comes between, which would write its own configuration.
func (s *starts) launch(id string, in configRequest, may func() error) (any, error) {
	for _, set := range in.Overrides {
		if key := config.SecretIn(set); key != "" {
			return nil, mistake{fmt.Errorf("%s is a secret, and all can read the arguments of a program: write it into the configuration", key)}
		}
	}
	root, err := s.runs.root()
	if err == nil {
		err = checkOwner(root)
	}
	if err != nil {
		return nil, err
	}
	s.one.Lock()
	defer s.one.Unlock()
	for _, check := range []func() error{may, func() error { return s.ended(id) }, may} { // it may have begun meanwhile
		if err := check(); err != nil {
			return nil, err
		}
	}
	dir := startDir(root, id)
	log, err := prepare(dir, in)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := slices.Concat(s.program[1:], []string{filepath.Join(dir, configFile)}, in.Overrides)
	cmd := exec.Command(s.program[0], args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdout, cmd.Stderr = log, log // a file: a pipe would break when the studio ends
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.add(id, cmd)
	return map[string]string{"id": id}, nil
}

// prepare writes the files of a run that starts, and opens its log.
func prepare(dir string, in configRequest) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	text, err := json.Marshal(in)
	if err == nil {
		err = durable.WriteSecret(filepath.Join(dir, startFile), text)
	}
	if err == nil {
		err = durable.WriteSecret(filepath.Join(dir, configFile), []byte(in.Text))
	}
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(log, "--- started by the studio, %s\n", time.Now().Format(time.DateTime)); err != nil {
		log.Close()
		return nil, err
	}
	return log, nil
}

// startDir returns the directory of the studio's files about a run.
func startDir(root, id string) string { return filepath.Join(root, ownDir, filepath.FromSlash(id)) }

// checkOwner returns an error if another user has made the directory of the studio's files: that user
// would choose which programs run.
func checkOwner(root string) error {
	dir := filepath.Join(root, ownDir)
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no directory: move it away, the studio keeps its files there", dir)
	case !isMine(info):
		return fmt.Errorf("%s belongs to another user: move it away, or serve another directory with --dir", dir)
	}
	return nil
}

// startedAs returns the configuration of a run that a studio has started, and the run's ID; "" if none
// has. A stage was started with its run.
func startedAs(root, id string) (in configRequest, started string, err error) {
	if !isID(id) {
		return in, "", notFound{fmt.Errorf("there is no run %.200q", id)}
	}
	if checkOwner(root) != nil { // nobody starts that
		return in, "", nil
	}
	for _, at := range []string{id, path.Dir(id)} {
		dir := startDir(root, at)
		text, err := durable.ReadWithin(dir, startFile, maxPosted)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &in)
		}
		if err != nil {
			return in, "", fmt.Errorf("%s: %w", filepath.Join(dir, startFile), err)
		}
		if at == id || in.hasStage(path.Base(id)) {
			return in, at, nil
		}
	}
	return configRequest{}, "", nil
}

func (w *configRequest) hasStage(name string) bool {
	cfg, err := w.parse()
	return err == nil && hasStageNamed(cfg, name)
}
