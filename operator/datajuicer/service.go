// Package datajuicer is a client of Trinity-RFT's HTTP service for Data-Juicer, which processes
// tasks and experiences. It can start the service. The service has these endpoints:
//   - GET /health
//   - POST /create takes the settings of a session and returns its session_id
//   - POST /process_task and POST /process_experience process data in a session
//   - POST /close
package datajuicer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"sync"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// Service is a Data-Juicer service. It is safe for concurrent use.
type Service struct {
	URL   string        // of a running service; "" starts one
	Port  int           // of the service to start; 0 is any free port
	Start []string      // command that starts it, before --host and --port; nil is Trinity-RFT's
	Wait  time.Duration // for the start; 0 is five minutes, because it loads a lot
	Say   func(string)  // logs a line for people

	mu       sync.Mutex
	server   *server // that Open has started
	sessions []*Session
}

// Settings are the settings of a session.
type Settings struct {
	Type       string                      `json:"pipeline_type"` // "task" or "experience"
	Operators  []map[string]map[string]any `json:"operators,omitempty"`
	ConfigPath string                      `json:"config_path,omitempty"` // of a recipe on the service's machine; overrides Operators
	Processes  int                         `json:"np"`

	// for tasks
	Inputs       []string `json:"inputs,omitempty"` // paths on the service's machine
	OutputDir    string   `json:"output_dir,omitempty"`
	TargetFields []string `json:"target_fields,omitempty"`
	TopK         int      `json:"top_k,omitempty"`
}

// Session is a pipeline of operators. It can run any number of times.
type Session struct {
	service *Service
	id      string
}

// User is implemented by operators that use the service.
type User interface {
	UseService(*Service)
}

// Open makes a session. It starts the service before the first session if URL is "".
func (s *Service) Open(ctx context.Context, settings Settings) (*Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	var made struct {
		ID string `json:"session_id"`
	}
	if err := s.postJSON(ctx, "/create", settings, &made); err != nil {
		return nil, err
	}
	if made.ID == "" {
		return nil, fmt.Errorf("Data-Juicer at %s returned no session_id: is this Trinity-RFT's service?", s.URL)
	}
	session := &Session{s, made.ID}
	s.sessions = append(s.sessions, session)
	return session, nil
}

// reach starts the service, or checks that it answers.
func (s *Service) reach(ctx context.Context) (err error) {
	if s.URL != "" {
		ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer within 10 s"))
		defer cancel()
		if err := s.healthy(ctx); err != nil {
			return fmt.Errorf("%w: start it, or set service.data_juicer.auto_start", err)
		}
		return nil
	}
	s.server, s.URL, err = start(ctx, s)
	return err
}

// healthy returns an error if the service does not answer.
func (s *Service) healthy(ctx context.Context) error {
	_, err := s.send(ctx, retry.Request{Method: http.MethodGet, URL: s.URL + "/health"})
	return err
}

// ProcessTask runs the pipeline on the inputs, writes the remaining rows to output.jsonl in
// OutputDir, and returns their number. It may wait for people, so only ctx limits its time.
func (x *Session) ProcessTask(ctx context.Context) (rows int, err error) {
	var answer struct {
		Metrics struct {
			Rows int `json:"sample_num"`
		} `json:"metrics"`
	}
	err = x.service.postJSON(ctx, "/process_task", map[string]string{"session_id": x.id}, &answer)
	return answer.Metrics.Rows, err
}

// ProcessExperience runs the pipeline on a table, an Arrow IPC stream. It returns the remaining
// table and metrics.
func (x *Session) ProcessExperience(ctx context.Context, table []byte) (left []byte, metrics map[string]any, err error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	err = form.WriteField("session_id", x.id)
	if err == nil {
		var file io.Writer
		if file, err = form.CreateFormFile("arrow_data", "dataset.arrow"); err == nil {
			_, err = file.Write(table)
		}
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return nil, nil, err
	}
	header := http.Header{"Content-Type": {form.FormDataContentType()}}
	reply, err := x.service.send(ctx, retry.Request{Method: http.MethodPost, URL: x.service.URL + "/process_experience",
		Header: header, Body: body.Bytes()})
	if err != nil {
		return nil, nil, err
	}
	if text := reply.Header.Get("X-Metrics"); text != "" {
		if err := json.Unmarshal([]byte(text), &metrics); err != nil {
			return nil, nil, fmt.Errorf("Data-Juicer at %s: metrics %q: %w", x.service.URL, text, err)
		}
	}
	return reply.Body, metrics, nil
}

// Close closes all sessions, and stops a service that Open has started.
func (s *Service) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.Background(), 10*time.Second, errors.New("no answer within 10 s"))
	defer cancel()
	var errs []error
	for _, x := range s.sessions {
		errs = append(errs, s.postJSON(ctx, "/close", map[string]string{"session_id": x.id}, nil))
	}
	s.sessions = nil
	if s.server != nil {
		s.server.stop()
		s.server, s.URL = nil, ""
	}
	return errors.Join(errs...)
}

func (s *Service) postJSON(ctx context.Context, path string, in, out any) error {
	client := s.client(s.URL + path)
	return client.JSON(ctx, retry.Request{Method: http.MethodPost, URL: s.URL + path, Accept: isOK}, in, out)
}

func (s *Service) send(ctx context.Context, r retry.Request) (*retry.Reply, error) {
	client := s.client(r.URL)
	r.Accept = isOK
	return client.Do(ctx, r)
}

// client returns a client without retries, because a pipeline may have begun although no answer
// came.
func (s *Service) client(url string) retry.Client {
	return retry.Client{Name: "Data-Juicer at " + url, MaxBody: maxAnswer}
}

// maxAnswer bounds the bytes of an answer, which may hold the table of a step.
const maxAnswer = 4 << 30

func isOK(code int) bool { return code == http.StatusOK }
