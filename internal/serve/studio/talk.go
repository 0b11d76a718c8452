package studio

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/retry"
	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// Talker finds the models that one can talk to, and plans to serve them. Without it there are none.
type Talker struct {
	Models func(dir string) ([]Model, error)                         // in the checkpoints of a run, the newest first
	Plan   func(path string, length int) (plan ModelPlan, err error) // length 0 is the model's usual one
}

// Model is a model of a run.
type Model struct {
	Name string `json:"name"` // such as global_step_10
	Kind string `json:"kind"` // model, adapter, or base: what the run began with
	Path string `json:"path"`
	Why  string `json:"why"` // one cannot talk to it; "" if one can
}

// ModelPlan tells how to serve a model, and the memory that it takes.
type ModelPlan struct {
	Command    []string            // serves it at a free port of this machine, which it prints
	Length     int                 // tokens of the longest conversation
	Memory     []config.MemoryPlan // what needs memory
	Sum, Free  int64               // bytes of this machine: planned, and available; Free 0 is unknown
	DoesNotFit string              // what it needs, and what there is; "" if it fits
}

const (
	baseModel = "base"
	mostTalks = 2                // models that are loaded at once
	mostEnded = 4                // that are told of after their end
	idleTime  = 10 * time.Minute // without use, after which a model ends
	loadTime  = 10 * time.Minute // that a model may take to load
)

// talks are the models that the studio has loaded.
type talks struct {
	loading sync.Mutex // one at a time: the second must see the memory of the first

	mu     sync.Mutex
	all    []*talk // the newest last
	closed bool

	idle, load time.Duration // 0 is idleTime, loadTime
}

// talking lets people talk to the models of runs.
type talking struct {
	runs     *runs
	talks    *talks
	talker   Talker
	planning *sync.Mutex
}

// close ends the models that somebody talks to.
func (t *talks) close() {
	t.mu.Lock()
	t.closed = true
	all := t.all
	t.mu.Unlock()
	for _, one := range all {
		one.end(errors.New("the studio has ended"))
		<-one.ended
	}
}

// models answers with the models of a run: those of its checkpoints, and the one that it began with.
func (s *talking) models(_ *http.Request, f *runFiles) (any, error) {
	all, err := s.modelsIn(f)
	return map[string]any{"models": list(all)}, err
}

func (s *talking) modelsIn(f *runFiles) ([]Model, error) {
	if s.talker.Models == nil {
		return nil, nil
	}
	all, err := s.talker.Models(f.dir)
	if err != nil {
		return nil, err
	}
	set, err := f.settings()
	if path := set.value("model.model_path"); err == nil && path != "" {
		all = append(all, Model{Name: baseModel, Kind: baseModel, Path: path})
	}
	return all, err
}

// wanted is a request to load a model of a run.
type wanted struct {
	Run    string `json:"run"`
	Model  string `json:"model"`  // its name
	Length int    `json:"length"` // tokens of the longest conversation; 0 is the model's usual one
}

// find returns the model that a request wants.
func (s *talking) find(in wanted) (Model, error) {
	f, err := s.runs.open(in.Run)
	if err != nil {
		return Model{}, err
	}
	all, err := s.modelsIn(f)
	if err != nil {
		return Model{}, err
	}
	for _, m := range all {
		if m.Name == in.Model && m.Why != "" {
			return m, mistake{fmt.Errorf("%s of %s: %s", m.Name, in.Run, m.Why)}
		}
		if m.Name == in.Model {
			return m, nil
		}
	}
	return Model{}, notFound{fmt.Errorf("the run %q has no model %.100q", in.Run, in.Model)}
}

// now answers with the models that are loaded, and those that have ended a while ago.
func (s *talking) now(*http.Request) (any, error) {
	all := []status{}
	for _, t := range s.talks.list() {
		all = append(all, t.status())
	}
	return map[string]any{"talks": all, "most": mostTalks}, nil
}

// load starts to load a model, in a process of its own. A model that is loaded is taken as it is.
func (s *talking) load(_ *http.Request, in wanted) (any, error) {
	if in.Length < 0 {
		return nil, mistake{fmt.Errorf("length is %d: want a number of tokens, or 0 for the model's usual one", in.Length)}
	}
	model, err := s.find(in)
	if err != nil {
		return nil, err
	}
	s.talks.loading.Lock()
	defer s.talks.loading.Unlock()
	live := s.talks.live()
	for _, t := range live {
		if t.model == model && t.run == in.Run && (in.Length == 0 || in.Length == t.plan.Length) {
			return t.status(), nil
		}
	}
	if len(live) >= mostTalks {
		return nil, mistake{fmt.Errorf("%d models are loaded, %s and %s: end one of them", mostTalks, live[0].name(), live[1].name())}
	}
	s.planning.Lock()
	plan, err := s.talker.Plan(model.Path, in.Length)
	s.planning.Unlock()
	if err == nil {
		err = lacking(plan, live)
	}
	if err != nil {
		return nil, mistake{fmt.Errorf("%s of %s: %s", model.Name, in.Run, shown(firstLine(err)))}
	}
	t, err := s.talks.start(in.Run, model, plan)
	if err != nil {
		return nil, err
	}
	return t.status(), nil
}

// lacking returns an error if a plan does not fit beside the models that are loaded, which may not have
// taken all of their memory yet.
func lacking(plan ModelPlan, live []*talk) error {
	if plan.DoesNotFit != "" {
		return errors.New(plan.DoesNotFit)
	}
	var held int64
	var names []string
	for _, t := range live {
		held += t.untaken()
		names = append(names, t.name())
	}
	if plan.Free == 0 || plan.Sum <= plan.Free-held {
		return nil
	}
	return fmt.Errorf("it needs about %s of memory and %s are available, besides %s that %s may still take; "+
		"shorten the conversation, or end that model",
		config.Size(plan.Sum), config.Size(max(0, plan.Free-held)), config.Size(held), strings.Join(names, " and "))
}

// unload ends a model.
func (s *talking) unload(r *http.Request, _ struct{}) (any, error) {
	t, err := s.talk(r)
	if err != nil {
		return nil, err
	}
	t.end(nil)
	<-t.ended
	return t.status(), nil
}

func (s *talking) talk(r *http.Request) (*talk, error) {
	for _, t := range s.talks.list() {
		if t.id == r.PathValue("talk") {
			return t, nil
		}
	}
	return nil, notFound{errors.New("this model is no longer loaded: load it again")}
}

// chat answers as /v1/chat/completions does, always with a stream. It sends what the model's process
// sends, and event: error if that ends early.
func (s *talking) chat(w http.ResponseWriter, r *http.Request) error {
	in, err := decoded[map[string]json.RawMessage](w, r)
	if err != nil {
		return err
	}
	t, err := s.talk(r)
	if err == nil {
		err = t.begin()
	}
	if err != nil {
		return err
	}
	defer t.done()
	if in == nil {
		in = map[string]json.RawMessage{}
	}
	in["stream"] = json.RawMessage("true")
	to := stream{w: w, control: http.NewResponseController(w)}
	begun := false
	client := wire.Client{BaseURL: t.address, Key: t.token}
	err = client.Stream(r.Context(), "chat/completions", in, func(data []byte) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/event-stream")
		}
		to.write(fmt.Sprintf("data: %s\n\n", data))
		return to.err
	})
	switch {
	case r.Context().Err() != nil: // the page has left
	case err == nil:
		to.write("data: [DONE]\n\n")
	case begun:
		to.send("error", map[string]string{"error": t.reason(err).Error()})
	default:
		return t.reason(err)
	}
	return nil
}

// reason returns why a request failed: what the server says, or how its process has ended.
func (t *talk) reason(err error) error {
	var refused *retry.StatusError
	if errors.As(err, &refused) && refused.Code/100 == 4 {
		return mistake{errors.New(shown(refused.Message))}
	}
	select {
	case <-t.ended:
		return mistake{fmt.Errorf("%s has ended: %w", t.name(), t.why())}
	case <-time.After(endTime): // a connection breaks before its process is known to have ended
	}
	return fmt.Errorf("%s: %s", t.name(), shown(err.Error()))
}
