// Command bench measures what users wait for – training steps, sampling, GRPO steps, start – through the paths that users run, beside the
// peers that are installed here and beside the limits of this processor.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	_ "github.com/trinity-go/trinity/standard" // the engine, algorithms and workflows that a run has
)

// settings are the command line.
type settings struct {
	json    bool
	only    string
	model   string
	runs    int
	peers   string
	dtype   string
	results string
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		exit(child(os.Args[2]))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	exit(bench(ctx, os.Args[1:], os.Stdout))
}

func exit(err error) {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func parse(args []string) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.BoolVar(&s.json, "json", false, "print one JSON object per row")
	f.StringVar(&s.only, "only", "", "workloads to measure, separated by commas; more may follow as arguments: "+strings.Join(names(), " "))
	f.StringVar(&s.model, "model", os.Getenv("TRINITY_SMOLLM2_GGUF"), "model: GGUF file or Hugging Face directory; $TRINITY_SMOLLM2_GGUF if not given")
	f.IntVar(&s.runs, "runs", 5, "measured runs of each side; the table has their medians")
	f.StringVar(&s.peers, "peers", "auto", "auto measures those that are installed, none leaves them out")
	f.StringVar(&s.dtype, "dtype", "", "storage of the sampler's weights: f32 or bf16; the engine's own choice if not given")
	f.StringVar(&s.results, "results", "", "directory that keeps the rows of this processor and day")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return s, s.check(f.Args())
}

func (s *settings) check(more []string) error {
	if s.only != "" || len(more) > 0 {
		s.only = strings.Trim(s.only+","+strings.Join(more, ","), ",")
	}
	for _, name := range s.chosen() {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no workload %q: have %s", name, strings.Join(names(), ", "))
		}
	}
	switch {
	case s.runs < 1:
		return fmt.Errorf("--runs is %d: want at least 1", s.runs)
	case s.peers != "auto" && s.peers != "none":
		return fmt.Errorf("--peers is %q: want auto or none", s.peers)
	case s.dtype != "" && s.dtype != "f32" && s.dtype != "bf16":
		return fmt.Errorf("--dtype is %q: want f32 or bf16", s.dtype)
	case s.model == "":
		return errors.New("no model: give --model a GGUF file or a Hugging Face directory, or set TRINITY_SMOLLM2_GGUF")
	}
	return nil
}

// chosen are the workloads to measure.
func (s *settings) chosen() []string {
	if s.only == "" {
		return names()
	}
	return strings.Split(s.only, ",")
}

// bench measures the chosen workloads and prints their rows.
func bench(ctx context.Context, args []string, out io.Writer) error {
	set, err := parse(args)
	if err != nil {
		return err
	}
	session, err := newSession(ctx, set)
	if err != nil {
		return err
	}
	defer session.close()
	fmt.Fprintln(os.Stderr, session.heading())
	var rows []Row
	for _, w := range workloads {
		if !slices.Contains(set.chosen(), w.name) {
			continue
		}
		row, err := session.measure(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		rows = append(rows, row)
		if set.json {
			if err := json.NewEncoder(out).Encode(row); err != nil {
				return err
			}
		}
		if set.results != "" {
			if err := keep(set.results, session.machine, row); err != nil {
				return err
			}
		}
	}
	if !set.json {
		return printTable(out, rows)
	}
	return nil
}
