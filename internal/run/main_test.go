package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/run"
	_ "github.com/trinity-go/trinity/standard"
)

// childConfig is set in a process that runs a configuration in place of tests: to be killed, or to
// have another number of cores.
const (
	childConfig    = "TRINITY_TEST_CONFIG"
	childOverrides = "TRINITY_TEST_OVERRIDES" // one a line
	childStatus    = "TRINITY_TEST_STATUS"    // file to write /proc/self/status to, at the end
	childHits      = "TRINITY_TEST_HITS"      // file to write the hits of failpoints to, at the end
	childJoin      = "TRINITY_TEST_JOIN"      // URL of a trainer
	childStage     = "TRINITY_TEST_STAGE"     // the only one to run
	interruptCode  = 130
)

var errInterrupt = errors.New("interrupted")

func TestMain(m *testing.M) {
	if does := os.Getenv(childAgent); does != "" {
		os.Exit(agent(does))
	}
	if os.Getenv(childServer) != "" {
		flag.Parse()
		if err := flag.Set("test.run", "^TestServerIsKilledInADelivery$"); err != nil { // its servers need a testing.T
			panic(err)
		}
		os.Exit(m.Run())
	}
	if path := os.Getenv(childConfig); path != "" {
		code := child(path, overrides(os.Getenv(childOverrides)))
		if to := os.Getenv(childStatus); to != "" {
			if status, err := os.ReadFile("/proc/self/status"); err != nil || os.WriteFile(to, status, 0o666) != nil {
				code = 2
			}
		}
		if to := os.Getenv(childHits); to != "" {
			if hits, err := json.Marshal(failpoint.Hits()); err != nil || os.WriteFile(to, hits, 0o666) != nil {
				code = 2
			}
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func child(path string, overrides []string) int {
	cfg, err := config.Load(path, config.Options{Overrides: overrides})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	stop, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	go func() {
		<-signals
		cancel(errInterrupt)
	}()
	_, err = run.Run(context.Background(), stop, cfg,
		run.Options{Say: func(string) {}, Join: os.Getenv(childJoin), Stage: os.Getenv(childStage)})
	switch {
	case errors.Is(err, errInterrupt):
		return interruptCode
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func overrides(lines string) []string {
	return strings.FieldsFunc(lines, func(r rune) bool { return r == '\n' })
}
