package retry

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/trinity-go/trinity/internal/wait"
)

// Service has the arguments of plug-ins that post to an HTTP service.
type Service struct {
	URL              string            `yaml:"url" doc:"where the requests are posted"`
	Headers          map[string]string `yaml:"headers" secret:"true" doc:"headers of the request, such as Authorization"`
	Timeout          float64           `yaml:"timeout" range:"(0,inf]" doc:"seconds for one attempt"`
	MaxRetryTimes    int               `yaml:"max_retry_times" range:"[0,)" doc:"attempts after the first"`
	MaxRetryInterval float64           `yaml:"max_retry_interval" range:"[0,inf]" doc:"seconds between attempts"`
}

// Validate checks the URL and the ranges.
func (s *Service) Validate() error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("url: want http://host… or https://host…, got %q", s.URL)
	}
	return nil
}

// Post posts a body and returns the answer of status 200, of up to most bytes.
func (s *Service) Post(ctx context.Context, mime string, body []byte, most int64) ([]byte, error) {
	header := http.Header{"Content-Type": {mime}}
	for k, v := range s.Headers {
		header.Set(k, v)
	}
	pause := wait.Seconds(s.MaxRetryInterval)
	client := Client{Timeout: wait.Seconds(s.Timeout), Retries: s.MaxRetryTimes, Pause: pause, MaxPause: pause, MaxBody: most}
	reply, err := client.Do(ctx, Request{Method: http.MethodPost, URL: s.URL, Header: header, Body: body, Accept: isOK})
	if err != nil {
		return nil, err
	}
	return reply.Body, nil
}

// String names the service in errors.
func (s *Service) String() string { return Request{Method: http.MethodPost, URL: s.URL}.String() }

func isOK(code int) bool { return code == http.StatusOK }
