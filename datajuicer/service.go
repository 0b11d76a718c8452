// Package datajuicer asks Data-Juicer to process tasks and experiences, through the HTTP service that Trinity-RFT wraps it in: GET /health; POST /create with the
// settings of a session, which answers session_id; POST /process_task and POST /process_experience, each for a session; POST /close. It can start the service.
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
	"strings"
	"sync"
	"time"
)

// Service is a Data-Juicer to be asked. It is safe for concurrent use.
type Service struct {
	URL   string        // where it listens; "" has one started
	Port  int           // of one that is started; 0 is any free one
	Start []string      // the command that starts one, before --host and --port; nil is that of Trinity-RFT
	Wait  time.Duration // for one to start; 0 is five minutes, since it loads much
	Say   func(string)  // for people

	mu       sync.Mutex
	server   *server // that was started
	sessions []*Session
}

// Settings are what a session does.
type Settings struct {
	Type       string                      `json:"pipeline_type"` // "task" or "experience"
	Operators  []map[string]map[string]any `json:"operators,omitempty"`
	ConfigPath string                      `json:"config_path,omitempty"` // of a recipe, in the service's files; wins over Operators
	Processes  int                         `json:"np"`

	// of tasks
	Inputs       []string `json:"inputs,omitempty"` // paths, in the service's files
	OutputDir    string   `json:"output_dir,omitempty"`
	TargetFields []string `json:"target_fields,omitempty"`
	TopK         int      `json:"top_k,omitempty"`
}

// Session is a pipeline of operators, made once and used any number of times.
type Session struct {
	service *Service
	id      string
}

// User is what wants to ask.
type User interface {
	UseService(*Service)
}

// Open makes a session, and starts the service before the first one if that is asked for.
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
		return nil, fmt.Errorf("Data-Juicer at %s made no session: is that its service?", s.URL)
	}
	session := &Session{s, made.ID}
	s.sessions = append(s.sessions, session)
	return session, nil
}

// reach starts the service, or looks whether it is there.
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

// healthy asks the service whether it is there.
func (s *Service) healthy(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/health", nil)
	if err != nil {
		return err
	}
	_, _, err = s.do(req)
	return err
}

// ProcessTask runs the pipeline on the inputs and returns the number of rows that are left, which it has written to output.jsonl in OutputDir. It may wait
// for people, so that only the end of ctx ends it early.
func (x *Session) ProcessTask(ctx context.Context) (rows int, err error) {
	var answer struct {
		Metrics struct {
			Rows int `json:"sample_num"`
		} `json:"metrics"`
	}
	err = x.service.postJSON(ctx, "/process_task", map[string]string{"session_id": x.id}, &answer)
	return answer.Metrics.Rows, err
}

// ProcessExperience runs the pipeline on a table, an Arrow IPC stream, and returns the table that is left, and metrics.
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
	left, header, err := x.service.post(ctx, "/process_experience", form.FormDataContentType(), &body)
	if err != nil {
		return nil, nil, err
	}
	if text := header.Get("X-Metrics"); text != "" {
		if err := json.Unmarshal([]byte(text), &metrics); err != nil {
			return nil, nil, fmt.Errorf("Data-Juicer at %s: metrics %q: %w", x.service.URL, text, err)
		}
	}
	return left, metrics, nil
}

// Close ends all sessions, and the service if it was started.
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
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	answer, _, err := s.post(ctx, path, "application/json", bytes.NewReader(body))
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("Data-Juicer at %s%s: %w", s.URL, path, err)
	}
	return nil
}

func (s *Service) post(ctx context.Context, path, contentType string, body io.Reader) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, body)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", contentType)
	return s.do(req)
}

// do makes a request. What the service says of an error, often a Python traceback, becomes one line of its end, where the error itself is.
func (s *Service) do(req *http.Request) ([]byte, http.Header, error) {
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		if req.Context().Err() != nil {
			err = context.Cause(req.Context())
		}
		return nil, nil, fmt.Errorf("Data-Juicer at %s: %w", s.URL, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		var said struct {
			Error string `json:"error"`
		}
		if json.Unmarshal(answer, &said) != nil {
			said.Error = string(answer)
		}
		err = fmt.Errorf("%s: %s", resp.Status, end(said.Error))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("Data-Juicer at %s%s: %w", s.URL, req.URL.Path, err)
	}
	return answer, resp.Header, nil
}

// end is the end of a text, on one line.
func end(text string) string {
	const most = 600
	line := strings.Join(strings.Fields(text), " ")
	if len(line) > most {
		line = "…" + strings.ToValidUTF8(line[len(line)-most:], "")
	}
	return line
}
