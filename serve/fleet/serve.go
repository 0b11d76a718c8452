package fleet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity/serve/web"
)

// Serve listens on an address, writes it into the run's directory, and answers explorers while train runs. When train ends well they are told, and waited
// for until stop; when it fails they wait for the run to be taken up again.
func (s *Server) Serve(ctx, stop context.Context, listen string, train func(context.Context) error) error {
	listener, err := web.Listen(ctx, listen)
	if err != nil {
		return fmt.Errorf("trainer.listen_address: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	at := address{URL: "http://" + listener.Addr().String(), Token: s.Token, Host: host, PID: os.Getpid()}
	serving, closing := context.WithCancel(context.Background())
	s.closing = serving
	server := &web.Server{Handler: s.Handler()} // long polls, deliveries and weights take their time; explorers retry what is cut off
	eg, ctx := errgroup.WithContext(ctx)
	watching, enough := context.WithCancel(ctx)
	eg.Go(func() error { return s.watch(watching) })
	eg.Go(func() error {
		if err := server.Serve(serving, listener); err != nil {
			return fmt.Errorf("serving explorers: %w", err)
		}
		return nil
	})
	eg.Go(func() error {
		defer enough()
		defer closing()
		if err := at.write(s.Dir); err != nil {
			return err
		}
		s.Say("waits for explorers at " + at.URL)
		if err := train(ctx); err != nil {
			return err
		}
		err := errors.Join(s.Buffer.Close(), s.end(ctx, stop))
		at.Token, at.Ended, at.TotalSteps = "", true, s.TotalSteps
		if err := errors.Join(err, at.write(s.Dir)); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.clear()
	})
	return eg.Wait()
}

// NewToken draws a token.
func NewToken() string { return rand.Text() }
