package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wait"
)

// searchService is a search engine behind HTTP.
type searchService struct {
	of     *search
	client retry.Client
	header http.Header
}

// mostSearchAnswer bounds what a service answers, in bytes.
const mostSearchAnswer = 16 << 20

func newSearchService(s *search) (*searchService, error) {
	if err := s.Service.Validate(); err != nil {
		return nil, err
	}
	if documents := s.Service; s.DocumentURL != "" {
		documents.URL = s.DocumentURL
		if err := documents.Validate(); err != nil {
			return nil, fmt.Errorf("document_%w", err)
		}
	}
	pause := wait.Seconds(s.MaxRetryInterval)
	out := &searchService{of: s, header: http.Header{}, client: retry.Client{
		Timeout: wait.Seconds(s.Timeout), Retries: s.MaxRetryTimes, Pause: pause, MaxPause: pause, MaxBody: mostSearchAnswer,
	}}
	for k, v := range s.Headers {
		out.header.Set(k, v)
	}
	return out, nil
}

func (s *searchService) find(ctx context.Context, query string, most int) ([]document, error) {
	var answer struct{ Results *[]document }
	var err error
	if s.of.Method == "get" {
		u, _ := url.Parse(s.of.URL) // Validate has parsed it
		q := u.Query()
		q.Set("q", query)
		q.Set("format", "json")
		u.RawQuery = q.Encode()
		err = s.client.JSON(ctx, retry.Request{Method: http.MethodGet, URL: u.String(), Header: s.header}, nil, &answer)
	} else {
		err = s.client.JSON(ctx, retry.Request{Method: http.MethodPost, URL: s.of.URL, Header: s.header},
			map[string]any{"query": query, "max_results": most}, &answer)
	}
	switch {
	case err != nil:
		return nil, err
	case answer.Results == nil:
		return nil, fmt.Errorf("%s answers without results", s.of.URL)
	}
	found := *answer.Results
	return found[:min(len(found), most)], nil
}

func (s *searchService) document(ctx context.Context, id string) (d document, err error) {
	var answer json.RawMessage
	request := retry.Request{Method: http.MethodPost, URL: s.of.DocumentURL, Header: s.header}
	err = s.client.JSON(ctx, request, map[string]string{"id": id}, &answer)
	if status := (*retry.StatusError)(nil); errors.As(err, &status) && status.Code == http.StatusNotFound {
		return d, errNoDocument
	}
	if err == nil && json.Unmarshal(answer, &d) != nil {
		err = fmt.Errorf("%s answers no document with id and text: %s", s.of.DocumentURL, retry.OneLine(answer))
	}
	return d, err
}
