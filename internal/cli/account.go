package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/experience/ledger"
)

// printAccounts says of every run and stage below dir what became of its experiences.
func printAccounts(out io.Writer, dir string) error {
	accounts, err := ledger.Read(dir)
	if err != nil {
		return err
	}
	if len(accounts) == 0 {
		return fmt.Errorf("%s records no experiences (log/experiences): is it the directory of a run that has made a step?", dir)
	}
	for i, name := range slices.Sorted(maps.Keys(accounts)) {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if name != "." {
			fmt.Fprintf(out, "%s\n", name)
		}
		printAccount(out, accounts[name])
	}
	return nil
}

func printAccount(out io.Writer, a *ledger.Account) {
	row := func(name string, n int, words string) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-13s %9d  %s", name, n, words), " "))
	}
	row("train steps", int(a.Steps), map[bool]string{true: "the trainer has ended"}[a.Ended])
	if a.Explored > 0 {
		row("explored", a.Explored, "")
		var by []string
		dropped := 0
		for _, who := range slices.Sorted(maps.Keys(a.Dropped)) {
			by = append(by, fmt.Sprintf("%s %d", who, a.Dropped[who]))
			dropped += a.Dropped[who]
		}
		row("filtered", dropped, strings.Join(by, ", "))
		row("trained", total(a.Trained), times(a.Trained))
		row("twice", total(a.Trained)-a.Trained[1], "")
		row("never", len(a.Lost), lost(a.Lost))
		row("in flight", a.Waiting, whereWaiting(a))
	}
	if n := total(a.Foreign); n > 0 {
		words := times(a.Foreign)
		if a.Explored > 0 {
			words = "no explorer's log here has them; " + words
		}
		row("from data", n, words)
	}
}

func total(uses map[int]int) (n int) {
	for _, count := range uses {
		n += count
	}
	return n
}

// times says how many experiences were trained on once, twice and so on.
func times(uses map[int]int) string {
	var words []string
	for _, n := range slices.Sorted(maps.Keys(uses)) {
		words = append(words, fmt.Sprintf("%d × %d", uses[n], n))
	}
	if len(words) < 2 && uses[1] > 0 {
		return "each once"
	}
	return strings.Join(words, ", ")
}

// lost names the first lost experiences.
func lost(ids ledger.IDs) string {
	const most = 2
	var words []string
	for _, id := range ids[:min(most, len(ids))] {
		words = append(words, id.String())
	}
	if len(ids) > most {
		words = append(words, "…")
	}
	if len(words) == 0 {
		return ""
	}
	return "later ones were taken: " + strings.Join(words, ", ")
}

// whereWaiting says where the experiences in flight are.
func whereWaiting(a *ledger.Account) string {
	switch {
	case a.Waiting == 0:
		return ""
	case a.Replay:
		return "in the replay buffer, or dropped from it"
	case a.Ended:
		return "left over: the trainer has ended"
	}
	return "in the experience buffer"
}
