// Command bench measures what users wait for – training steps, sampling, GRPO steps, start – through the paths that users run, beside the
// peers that are installed here and beside the limits of this processor.
package main

import (
	"cmp"
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
	peers   string
	python  string
	install bool
	profile string
	dtype   string
	save    bool
	server  string
	compare string
	phases  string
	pair    [2]setting // of phases
}

func main() {
	if len(os.Args) >= 3 && os.Args[1] == "child" {
		exit(child(os.Args[2], strings.Join(os.Args[3:], "")))
	}
	if len(os.Args) == 2 && os.Args[1] == "limits" {
		exit(sayLimits(os.Stdout))
	}
	if len(os.Args) >= 2 && os.Args[1] == "studioruns" {
		exit(writeStudio(os.Args[2:]))
	}
	if len(os.Args) == 2 && os.Args[1] == "load" {
		exit(load(os.Stdin, os.Stdout))
	}
	if len(os.Args) == 4 && os.Args[1] == "paced" {
		exit(servePaced(os.Args[2], os.Args[3], os.Stdin, os.Stdout))
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
	f.StringVar(&s.only, "only", "", "workloads to measure, separated by commas, of "+strings.Join(names(), " ")+"; sandbox is each sandbox_…; all if not given")
	f.StringVar(&s.model, "model", os.Getenv("TRINITY_SMOLLM2_GGUF"), "model: GGUF file or Hugging Face directory; $TRINITY_SMOLLM2_GGUF if not given")
	f.IntVar(&s.runs, "runs", 5, "measured runs of each side; the table has their medians")
	f.StringVar(&s.peers, "peers", "all", "peers to compare with, separated by commas, of "+strings.Join(programs(), ", ")+"; or all, or none")
	f.StringVar(&s.python, "python", os.Getenv("TRINITY_PYTHON"), "Python that has torch, transformers and trl; $TRINITY_PYTHON if not given, else that of --install")
	f.BoolVar(&s.install, "install", false, "first install the chosen peers, each kind in an environment of its own in the user's cache: "+sizes())
	f.StringVar(&s.profile, "profile", "", "measure nothing, but tell where our side of these workloads, separated by commas, spends its time")
	f.StringVar(&s.dtype, "dtype", "", "storage of the sampler's weights: "+strings.Join(storageNames(), " or ")+"; if not given the one nearest to each peer's")
	f.StringVar(&s.server, "server", "", "server on this machine with the model: vLLM for served_rollouts, which is left out without one, "+
		"or that of a delivery_…, which has a fake without one")
	f.StringVar(&s.compare, "compare", "", "measure this checkout beside the commit of that name, in turns and in place of peers")
	f.StringVar(&s.phases, "phases", "", "measure how long the phases of decoding steps take under two settings, step by step in turns: "+
		"kernels=A,B, cores=A,B, dtype=A,B, or commit=A beside this checkout")
	f.BoolVar(&s.save, "save", false, "keep the rows in bench/results, in the file of this processor")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q: workloads are named with --only", f.Arg(0))
	}
	return s, s.check()
}

func (s *settings) check() (err error) {
	if s.phases != "" {
		if s.compare != "" {
			return errors.New("--phases measures two settings: leave out --compare, or name the commit as --phases commit=A")
		}
		if s.pair, err = parseSettings(s.phases); err != nil {
			return err
		}
		if s.pair[0].key == "dtype" && s.dtype != "" {
			return errors.New("--phases names both dtypes: leave out --dtype")
		}
		if s.pair[0].key == "commit" {
			s.compare = s.pair[1].value
		}
	}
	model := false
	for _, name := range s.chosen() {
		w := find(name)
		if w == nil {
			return fmt.Errorf("there is no workload %q: have %s", name, strings.Join(names(), ", "))
		}
		if s.profile != "" && w.ours == nil {
			return fmt.Errorf("--profile: %s is a whole process, which is not profiled", name)
		}
		if s.phases != "" && !w.steps {
			return fmt.Errorf("--phases: %s has no steps that decode: name workloads such as decode_32 with --only", name)
		}
		model = model || w.model
	}
	for _, name := range strings.Split(s.peers, ",") {
		if s.peers != "all" && s.peers != "none" && !slices.Contains(programs(), name) {
			return fmt.Errorf("there is no peer %q: have %s, all and none", name, strings.Join(programs(), ", "))
		}
	}
	switch {
	case s.runs < 1:
		return fmt.Errorf("--runs is %d: want at least 1", s.runs)
	case s.profile != "" && s.only != "":
		return errors.New("--profile names workloads itself: leave out --only")
	case s.profile != "" && (s.compare != "" || s.phases != ""):
		return errors.New("--profile is of one build and setting: leave out --compare and --phases")
	case storages[s.dtype] == storage{}:
		return fmt.Errorf("--dtype is %q: want %s", s.dtype, strings.Join(storageNames(), " or "))
	case model && s.model == "":
		return errors.New("no model: give --model a GGUF file or a Hugging Face directory, or set TRINITY_SMOLLM2_GGUF")
	}
	return nil
}

// chosen returns the names of the workloads to measure or to profile. A name that no workload has
// stands for the workloads that begin with it and an underscore.
func (s *settings) chosen() (all []string) {
	if s.profile == "" && s.only == "" {
		return names()
	}
	for _, name := range strings.Split(cmp.Or(s.profile, s.only), ",") {
		several := slices.DeleteFunc(names(), func(n string) bool { return !strings.HasPrefix(n, name+"_") })
		if find(name) != nil || len(several) == 0 {
			several = []string{name}
		}
		all = append(all, several...)
	}
	return all
}

// wants tells whether a peer is chosen.
func (s *settings) wants(program string) bool {
	return s.profile == "" && (s.peers == "all" || slices.Contains(strings.Split(s.peers, ","), program))
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
	if set.profile != "" {
		return session.profileAll(ctx, out)
	}
	if set.phases != "" {
		return session.phasesAll(ctx, out)
	}
	return session.measureAll(ctx, out)
}

// measureAll prints and keeps the rows of the chosen workloads as they come.
func (s *session) measureAll(ctx context.Context, out io.Writer) error {
	start := time.Now()
	var rows []Row
	each := func(row Row) error {
		rows = append(rows, row)
		fmt.Fprintln(os.Stderr, strings.Join(row.cells(), "  "), " after", time.Since(start).Round(time.Second))
		if s.set.json {
			if err := json.NewEncoder(out).Encode(row); err != nil {
				return err
			}
		}
		if s.set.save {
			return keep(s.results(), s.machine, row)
		}
		return nil
	}
	for i := range workloads {
		if w := &workloads[i]; slices.Contains(s.set.chosen(), w.name) {
			if err := s.measure(ctx, w, each); err != nil {
				return err
			}
		}
	}
	if s.set.json {
		return nil
	}
	return printTable(out, rows)
}
