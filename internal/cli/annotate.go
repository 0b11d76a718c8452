package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/serve/annotate"
	"github.com/trinity-go/trinity/internal/serve/web"
)

// annotateFlags are the flags of `annotate`.
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
		Short: "Let people compare answers, and make training data of their verdicts",
		Long: "Serve a page on which people compare, rate and edit two answers to a prompt. The answers\n" +
			"come from the rows of a dataset, or from a run's buffer/explorer_output.jsonl. Every\n" +
			"decision is on the disk before the page acknowledges it. Ctrl-C stops the server and\n" +
			"writes dpo.jsonl, kto.jsonl, sft.jsonl and decisions.jsonl; the same command resumes.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			book, data, err := annotate.Questions{Data: f.data, Options: f.options, Terms: f.terms}.Open(cmd.Context(), f.out)
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
	set.StringVar(&f.options.Subset, "subset-name", "", "subset of a dataset directory with several, or the table or query of a database URL")
	set.StringVarP(&f.out, "out", "o", "",
		"directory for decisions and training data; default: the data's path with the extension .annotations")
	set.StringVar(&f.addr, "addr", "127.0.0.1:8765",
		"address to listen on; if other machines can reach it, the page asks for the printed token")
	set.StringVar(&f.options.PromptKey, "prompt-key", "prompt", "key of the prompt: a text, or the messages of a chat")
	set.StringSliceVar(&f.options.AnswerKeys, "answers", []string{"answer1", "answer2"}, "keys of the answers: texts, or lists of texts")
	set.IntVar(&f.options.PerPrompt, "pairs", 0, "largest number of pairs for a prompt with over two answers; 0 uses each answer once")
	set.IntVar(&f.terms.Overlap, "overlap", 1, "number of annotators for each pair")
	set.DurationVar(&f.terms.Lease, "lease", 10*time.Minute, "how long a pair stays reserved for a silent annotator")
	set.Uint64Var(&f.terms.Seed, "seed", 0, "seed that decides which answer is on the left, and which answers form pairs")
	set.BoolVar(&f.export, "export", false, "do not serve: write the files from the decisions so far")
}

func (f *annotateFlags) check() error {
	switch {
	case f.options.PerPrompt < 0:
		return fmt.Errorf("--pairs is %d: want 1 or more, or 0", f.options.PerPrompt)
	case f.terms.Overlap < 1:
		return fmt.Errorf("--overlap is %d: want 1 or more", f.terms.Overlap)
	case f.terms.Lease < time.Second:
		return fmt.Errorf("--lease is %v: want 1s or more", f.terms.Lease)
	case f.out == "" && dburl.IsURL(f.data):
		return errors.New("--data is a database: name a directory for the decisions with --out")
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
	token := rand.Text()
	listener, err := web.Listen(ctx, f.addr, token)
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	page := annotate.Server{Book: book}
	address := "http://" + listener.Addr().String() + "/"
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		page.Token = token
		address = "http://" + web.Reachable(at) + "/?token=" + page.Token
	}
	out := cmd.OutOrStdout()
	if data.Alone > 0 {
		fmt.Fprintf(out, "%d prompts have no two different answers and are left out.\n", data.Alone)
	}
	printProgress(cmd, book)
	fmt.Fprintf(out, "Annotate at %s and end with Ctrl-C.\n", address)
	server := web.Server{Handler: page.Handler(), Read: time.Minute, Write: time.Minute, Grace: 5 * time.Second}
	return server.Serve(ctx, listener)
}

// write writes the training data and prints the number of rows of each file.
func (f *annotateFlags) write(cmd *cobra.Command, book *annotate.Book) error {
	n, err := book.Write(f.out)
	if err != nil {
		return err
	}
	printProgress(cmd, book)
	fmt.Fprintf(cmd.OutOrStdout(), "%s: dpo.jsonl %d rows, kto.jsonl %d, sft.jsonl %d, decisions.jsonl %d\n", f.out, n.DPO,
		n.KTO, n.SFT, n.Decisions)
	return nil
}

// printProgress prints the annotators' progress.
func printProgress(cmd *cobra.Command, book *annotate.Book) {
	p, out := book.Progress(""), cmd.OutOrStdout()
	fmt.Fprintf(out, "%d of %d pairs are done.", p.Done, p.Pairs)
	if p.Wins > 0 {
		fmt.Fprintf(out, " The left answer won %d of %d judgements.", p.LeftWins, p.Wins)
	}
	if a := p.Agreement; a.Pairs > 0 {
		fmt.Fprintf(out, " Annotators agree on %.0f %% of %d pairs", 100*a.Share, a.Pairs)
		if a.Kappa != nil {
			fmt.Fprintf(out, ", %s's kappa %.2f", a.Name, *a.Kappa)
		}
		fmt.Fprint(out, ".")
	}
	if p.Elsewhere > 0 {
		fmt.Fprintf(out, " %d decisions are about pairs that are not in the data: did the data or --seed change?", p.Elsewhere)
	}
	if p.Torn > 0 {
		fmt.Fprintf(out, " The last decision was incomplete (%d bytes) and was dropped: the program was killed while writing "+
			"it, or the file is damaged.", p.Torn)
	}
	fmt.Fprintln(out)
}
