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
	"syscall"
	"time"

	_ "github.com/trinity-go/trinity/standard" // the engine, algorithms and workflows that a run has
)

// settings are the command line.
type settings struct {
	json    bool
	only    string
	model   string
	runs    int
	python  string
	install bool
	dtype   string
	save    bool
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "child" {
		exit(child(os.Args[2]))
	}
	if len(os.Args) == 2 && os.Args[1] == "limits" {
		exit(sayLimits(os.Stdout))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
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
	f.StringVar(&s.only, "only", "", "workloads to measure, separated by commas, of "+strings.Join(names(), " ")+"; all but the compiled step if not given")
	f.StringVar(&s.model, "model", os.Getenv("TRINITY_SMOLLM2_GGUF"), "model: GGUF file or Hugging Face directory; $TRINITY_SMOLLM2_GGUF if not given")
	f.IntVar(&s.runs, "runs", 3, "measured runs of each side; the table has their medians")
	f.StringVar(&s.python, "python", os.Getenv("TRINITY_PYTHON"), "Python that has the peers; $TRINITY_PYTHON if not given, else that of --install, else python3; none leaves the peers out")
	f.BoolVar(&s.install, "install", false, "first install the peers (bench/peers/requirements.txt) in an environment of their own, some gigabytes in the user's cache")
	f.StringVar(&s.dtype, "dtype", "", "storage of the sampler's weights: f32 or bf16; the engine's own choice if not given")
	f.BoolVar(&s.save, "save", false, "keep the rows in bench/results, in a file of this processor and day")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: workloads are named with --only", f.Arg(0))
	}
	return s, s.check()
}

func (s *settings) check() error {
	for _, name := range s.chosen() {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no workload %q: have %s", name, strings.Join(names(), ", "))
		}
	}
	switch {
	case s.runs < 1:
		return fmt.Errorf("--runs is %d: want at least 1", s.runs)
	case s.install && s.python != "":
		return fmt.Errorf("--install makes an environment of its own, and the Python is given already: %s", s.python)
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
		var usual []string
		for i := range workloads {
			if !workloads[i].asked {
				usual = append(usual, workloads[i].name)
			}
		}
		return usual
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
	start := time.Now()
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
		fmt.Fprintln(os.Stderr, strings.Join(row.cells(), "  "), " after", time.Since(start).Round(time.Second))
		if set.json {
			if err := json.NewEncoder(out).Encode(row); err != nil {
				return err
			}
		}
		if set.save {
			if err := keep(session.results(), session.machine, row); err != nil {
				return err
			}
		}
	}
	if !set.json {
		return printTable(out, rows)
	}
	return nil
}
