package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/cachedir"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/run/feed"
	"github.com/trinity-go/trinity/internal/run/plan"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/internal/serve/annotate"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/internal/serve/web"
)

func studioCommand() *cobra.Command {
	var dir, addr string
	var port uint16
	var browse, readOnly bool
	cmd := &cobra.Command{
		Use:   "studio",
		Short: "Show, start and stop runs in the browser: curves, rollouts and every token",
		Long: "Serve a page that shows the runs below a directory, also while they run: their state, curves, rollouts,\n" +
			"tokens and times. It only reads the runs' files, so a finished or a copied run opens as well. Whoever\n" +
			"has the printed token also checks configurations, starts and stops runs, and talks to their models,\n" +
			"unless --read-only.",
		Args: wantArgs(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return fmt.Errorf("--dir %s: there is no such directory: give the one that has the runs (checkpoint_root_dir)", dir)
			}
			host, at, err := splitAddress(cmd, addr, port)
			if err != nil {
				return err
			}
			return serveStudio(cmd, dir, net.JoinHostPort(host, at), readOnly, browse)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "checkpoints", "directory below which the runs are")
	f.StringVar(&addr, "addr", "127.0.0.1:8766", "address to listen on; if other machines can reach it, the page asks for the printed token")
	f.Uint16Var(&port, "port", 0, "port to listen on instead of that of --addr")
	f.BoolVar(&readOnly, "read-only", false, "only show runs: the page checks, starts and stops nothing")
	f.BoolVar(&browse, "open", false, "open the page in the browser")
	return cmd
}

// studioMemory is the memory at which the studio collects its garbage more often, in bytes.
const studioMemory = 128 << 20

// What the studio keeps in the user's cache, and the largest data that people annotate in it, in bytes.
const (
	studioCache = 2 << 30
	studioBook  = 128 << 20
)

// serveStudio serves the page until Ctrl-C.
func serveStudio(cmd *cobra.Command, dir, addr string, readOnly, browse bool) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	token := rand.Text()
	listener, err := web.Listen(ctx, addr, token)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--addr %s is in use: is a studio open there? Give another port with --port", addr)
	}
	if err != nil {
		return fmt.Errorf("--addr: %w", err)
	}
	s := studio.Server{
		Dir: dir, Version: version(), Annotator: annotate.Shelf{Most: studioBook},
		Data: studio.Data{Sources: feed.DataSources, Text: settle.OpenText},
	}
	if cache, err := os.UserCacheDir(); err == nil { // else each start reads all again
		s.Disk = cachedir.New(filepath.Join(cache, "trinity", "studio"), studioCache)
	}
	address := "http://" + listener.Addr().String() + "/"
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() {
		s.Token = token
		address = "http://" + web.Reachable(at) + "/"
	}
	if !readOnly {
		if err := addControl(&s, token); err != nil {
			return err
		}
	}
	if s.Token+s.Control != "" {
		address += "#token=" + token
	}
	debug.SetMemoryLimit(studioMemory)
	fmt.Fprintf(cmd.OutOrStdout(), "The studio is at %s and shows the runs below %s; end it with Ctrl-C.\n", address, dir)
	if browse {
		if err := openBrowser(address); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "no browser opens (%v): open the address yourself\n", err)
		}
	}
	server := web.Server{Handler: s.Handler(), Read: time.Minute, Write: time.Minute}
	return errors.Join(server.Serve(ctx, listener), s.Close())
}

// addControl lets the studio plan, start and stop runs for who has the token.
func addControl(s *studio.Server, token string) error {
	self, err := process.Self()
	if err != nil {
		return err
	}
	s.Control, s.Program, s.Talker = token, []string{self, "run", "--config"}, talker(self)
	s.Plan = func(cfg *config.Config) (*config.Plan, error) { return cfg.PlanStages(settle.Facts) }
	s.Absent, s.Advise = absent, advise
	s.Templates, err = templates()
	return err
}

// absent returns an error about models and data of a configuration that are not on this machine and not on a hub.
func absent(cfg *config.Config) error {
	plan, err := cfg.PlanStages(settle.Absent)
	if err != nil {
		return err
	}
	return plan.Fits()
}

// maxSimulated is how many rollouts the studio simulates: about a second.
const maxSimulated = 100_000

// advise returns what trinity plan finds with the metrics in the directory of a run.
func advise(dir string, load func(overrides ...string) (*config.Config, error)) (any, error) {
	p := plan.Planner{Load: load, JobDir: dir, MaxStaleness: 2, Steps: 100, MaxRollouts: maxSimulated}
	return p.Plan()
}

// openBrowser shows an address in the user's browser.
func openBrowser(address string) error {
	command := exec.Command("xdg-open", address)
	switch runtime.GOOS {
	case "darwin":
		command = exec.Command("open", address)
	case "windows":
		command = exec.Command("rundll32", "url.dll,FileProtocolHandler", address)
	}
	if err := command.Start(); err != nil {
		return err
	}
	go command.Wait() // its exit code tells nothing
	return nil
}
