package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/trinity-go/trinity/monitor"
)

func topCommand() *cobra.Command {
	var once bool
	cmd := &cobra.Command{
		Use:   "top JOB_DIR",
		Short: "Show the live display of a run, from another terminal",
		Long: "Show step, reward, throughput, time left, who waits for whom, the last failed rollout and the worst answer\n" +
			"of a run, from its files. The display ends with the run, and with q. Without a terminal it is printed once.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := monitor.Root(args[0])
			if err != nil {
				return err
			}
			watch, err := monitor.OpenWatch(dir)
			if err != nil {
				return err
			}
			if err := watch.Update(time.Now()); err != nil {
				return err
			}
			if out := cmd.OutOrStdout(); once || columns(out) == 0 {
				_, err := io.WriteString(out, watch.Text())
				return err
			}
			return showTop(cmd, watch)
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "print the display once")
	return cmd
}

// showTop draws the display every second, until a key ends it or no process has done the run for a
// few seconds, which also pass between two stages.
func showTop(cmd *cobra.Command, watch *monitor.Watch) error {
	ctx, cancel := interruptible(cmd.Context())
	defer cancel()
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	defer readKeys(cmd.InOrStdin(), quit)()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for idle := 0; idle < 5; idle++ {
		if err := watch.Update(time.Now()); err != nil {
			return err
		}
		if watch.Alive() {
			idle = 0
		}
		width, height, err := term.GetSize(int(os.Stdout.Fd()))
		if err != nil {
			return fmt.Errorf("the terminal is gone: %w", err)
		}
		if _, err := cmd.OutOrStdout().Write(watch.Frame(width, height)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	return nil
}

// readKeys calls quit for q and Ctrl-C, if a person types the input. The function that it returns
// gives the terminal back.
func readKeys(in io.Reader, quit func()) (restore func()) {
	if !isTerminal(in) {
		return func() {}
	}
	fd := int(in.(*os.File).Fd())
	state, err := term.MakeRaw(fd)
	if err != nil {
		return func() {}
	}
	go func() {
		for key := make([]byte, 1); ; {
			if n, err := in.Read(key); err != nil || n == 1 && (key[0] == 'q' || key[0] == 3) {
				quit()
				return
			}
		}
	}()
	return func() { _ = term.Restore(fd, state) }
}
