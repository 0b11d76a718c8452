package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/annotate"
	"github.com/trinity-go/trinity/database"
)

// annotateFlags are those of `annotate`.
type annotateFlags struct {
	data, out, addr string
	options         annotate.Options
	terms           annotate.Terms
	export          bool
}

func annotateCommand() *cobra.Command {
	var f annotateFlags
	cmd := &cobra.Command{
		Use:   "annotate --data PATH",
		Short: "Have people compare answers, and make training data of it",
		Long: "Serve a page on which people compare two answers to a prompt, rate and edit them. The answers are those of a dataset's rows, or of a run's\n" +
			"buffer/explorer_output.jsonl. Every decision is on the disk before it is acknowledged. Ctrl-C ends, and writes dpo.jsonl, kto.jsonl, sft.jsonl and\n" +
			"decisions.jsonl; the same command goes on.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			data, err := annotate.Read(f.data, f.options)
			if err != nil {
				return err
			}
			book, err := annotate.Open(f.out, data.Pairs, f.terms)
			if err != nil {
				return err
			}
			if !f.export {
				err = f.serve(cmd, book, data)
			}
			if err == nil {
				err = f.write(cmd, book)
			}
			return errors.Join(err, book.Close())
		},
	}
	f.add(cmd)
	return cmd
}

func (f *annotateFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVarP(&f.data, "data", "d", "", "dataset with prompts and answers, or experiences of a run")
	if err := cmd.MarkFlagRequired("data"); err != nil {
		panic(err) // the flag was added above
	}
	set.StringVar(&f.options.Split, "split", "train", "split of a directory with a dataset")
	set.StringVar(&f.options.Subset, "subset-name", "", "subset of a directory that has several; of a database's URL the table, or a query")
	set.StringVarP(&f.out, "out", "o", "", "directory of the decisions and of what is made of them; empty is that of the data with .annotations in place of its extension")
	set.StringVar(&f.addr, "addr", "127.0.0.1:8765", "address to serve at; one that other machines reach wants the token that is printed")
	set.StringVar(&f.options.PromptKey, "prompt-key", "prompt", "key of the prompt: a text, or the messages of a chat")
	set.StringSliceVar(&f.options.AnswerKeys, "answers", []string{"answer1", "answer2"}, "keys of the answers: texts, or lists of texts")
	set.IntVar(&f.options.PerPrompt, "pairs", 0, "most pairs of a prompt with more than two answers; 0 has each answer in one pair")
	set.IntVar(&f.terms.Overlap, "overlap", 1, "annotators that judge each pair")
	set.DurationVar(&f.terms.Lease, "lease", 10*time.Minute, "how long a pair is kept for an annotator who is not heard of")
	set.Uint64Var(&f.terms.Seed, "seed", 0, "gives which answer stands left, and the pairs of many answers")
	set.BoolVar(&f.export, "export", false, "serve nothing: write the files of what was decided so far")
}

func (f *annotateFlags) check() error {
	switch {
	case f.options.PerPrompt < 0:
		return fmt.Errorf("--pairs is %d: want 1 or more, or 0", f.options.PerPrompt)
	case f.terms.Overlap < 1:
		return fmt.Errorf("--overlap is %d: want 1 or more", f.terms.Overlap)
	case f.terms.Lease < time.Second:
		return fmt.Errorf("--lease is %v: want 1s or more", f.terms.Lease)
	case f.out == "" && database.IsURL(f.data):
		return errors.New("--data is a database: say with --out which directory the decisions go to")
	}
	if f.out == "" {
		data := filepath.Clean(f.data)
		f.out = strings.TrimSuffix(data, filepath.Ext(data)) + ".annotations"
	}
	f.options.Seed = f.terms.Seed
	return nil
}

// serve serves the page until Ctrl-C.
func (f *annotateFlags) serve(cmd *cobra.Command, book *annotate.Book, data annotate.Data) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.addr)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	page := annotate.Server{Book: book}
	address := "http://" + listener.Addr().String() + "/"
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		page.Token = rand.Text()
		address = "http://" + reachable(at) + "/?token=" + page.Token
	}
	out := cmd.OutOrStdout()
	if data.Alone > 0 {
		fmt.Fprintf(out, "%d prompts without two different answers are left out.\n", data.Alone)
	}
	report(cmd, book)
	fmt.Fprintf(out, "Annotate at %s and end with Ctrl-C.\n", address)
	server := http.Server{Handler: page.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(last)
}

// reachable is how other machines may call an address: where it is none in particular, by this machine's name.
func reachable(at *net.TCPAddr) string {
	if name, err := os.Hostname(); err == nil && at.IP.IsUnspecified() {
		return net.JoinHostPort(name, fmt.Sprint(at.Port))
	}
	return at.String()
}

// write makes training data and says what.
func (f *annotateFlags) write(cmd *cobra.Command, book *annotate.Book) error {
	n, err := book.Write(f.out)
	if err != nil {
		return err
	}
	report(cmd, book)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: dpo.jsonl %d rows, kto.jsonl %d, sft.jsonl %d, decisions.jsonl %d\n", f.out, n.DPO, n.KTO, n.SFT, n.Decisions)
	return nil
}

// report says how far the annotators are.
func report(cmd *cobra.Command, book *annotate.Book) {
	p, out := book.Progress(""), cmd.OutOrStdout()
	fmt.Fprintf(out, "%d of %d pairs are done.", p.Done, p.Pairs)
	if p.Wins > 0 {
		fmt.Fprintf(out, " The left answer was the better one in %d of %d judgements.", p.LeftWins, p.Wins)
	}
	if a := p.Agreement; a.Pairs > 0 {
		fmt.Fprintf(out, " Annotators agree on %.0f %% of %d pairs", 100*a.Share, a.Pairs)
		if a.Kappa != nil {
			fmt.Fprintf(out, ", %s's kappa %.2f", a.Name, *a.Kappa)
		}
		fmt.Fprint(out, ".")
	}
	if p.Elsewhere > 0 {
		fmt.Fprintf(out, " %d decisions are on pairs that the data do not have: are these other data, or another --seed?", p.Elsewhere)
	}
	if p.Torn > 0 {
		fmt.Fprintf(out, " The last %d bytes of the decisions were not a whole one and are gone: a kill while it was written, or a damaged file.", p.Torn)
	}
	fmt.Fprintln(out)
}
