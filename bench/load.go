package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	wire "github.com/trinity-go/trinity/internal/wire/openai"
)

// clients ask servers for streams of stamps, one for each URL, all at once.
type clients struct {
	URLs []string `json:"urls"`
}

const (
	loadTimeout = 3 * time.Minute // of all streams
	dialling    = 200             // requests that may wait for their connection at once
)

// load reads clients, lets them ask, and writes a sample with the latency that servers add. A stream
// that has not come whole is an error.
func load(in io.Reader, out io.Writer) error {
	c := &clients{}
	if err := json.NewDecoder(in).Decode(c); err != nil {
		return err
	}
	if err := checkFiles(len(c.URLs)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), loadTimeout, fmt.Errorf("the streams took longer than %v", loadTimeout))
	defer cancel()
	var mu sync.Mutex
	var ages []time.Duration
	places := make(chan struct{}, dialling)
	transport := &http.Transport{MaxIdleConnsPerHost: -1}
	eg, ctx := errgroup.WithContext(ctx)
	for _, url := range c.URLs {
		places <- struct{}{}
		eg.Go(func() error {
			own, err := ask(ctx, transport, url, func() { <-places })
			mu.Lock()
			defer mu.Unlock()
			ages = append(ages, own...)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	slices.Sort(ages)
	at := func(share float64) float64 { return ages[int(share*float64(len(ages)-1))].Seconds() * 1e3 }
	return json.NewEncoder(out).Encode(sample{Value: at(.99), P50: at(.5)})
}

// ask asks for a stream and returns the ages of its tokens when they arrived. sent is called once the
// request has been written.
func ask(ctx context.Context, transport *http.Transport, url string, sent func()) (ages []time.Duration, err error) {
	sent = sync.OnceFunc(sent)
	defer sent()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent() }})
	const body = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300)) // for the message
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	lines, whole := bufio.NewScanner(resp.Body), false
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if whole = whole || string(data) == "[DONE]"; !ok || whole {
			continue
		}
		var r wire.Response
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", data, err)
		}
		if len(r.Choices) == 0 || r.Choices[0].Delta == nil {
			continue
		}
		for _, text := range strings.Fields(r.Choices[0].Delta.Content) {
			stamp, err := strconv.ParseInt(text, 10, 32)
			if err != nil {
				return nil, err
			}
			ages = append(ages, age(int32(stamp)))
		}
	}
	if !whole || len(ages) != streamTokens {
		err = fmt.Errorf("a stream ended after %d of %d tokens", len(ages), streamTokens)
	}
	return ages, errors.Join(err, lines.Err())
}
