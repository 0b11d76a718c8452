package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/run/place"
	"github.com/trinity-go/trinity/internal/run/settle"
	"github.com/trinity-go/trinity/launcher"
)

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Give a run to a scheduler such as Slurm, and follow it",
		Long: "Give a run to the scheduler that cluster.launcher names, and follow it. The driver of the run\n" +
			"is then a job of the scheduler, and starts the programs of engines as its steps or jobs.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		clusterOf("render", "Print what a run would start, without starting it", (*clusterFlags).render),
		clusterOf("submit", "Send a run to the scheduler", (*clusterFlags).submit),
		clusterOf("status", "Print the state of a run that was sent", (*clusterFlags).status),
		clusterOf("logs", "Print what a run that was sent has printed", (*clusterFlags).logs),
		clusterOf("down", "End a run that was sent, with all that it has started", (*clusterFlags).down),
	)
	return cmd
}

// clusterFlags are the flags of the commands below cluster.
type clusterFlags struct {
	configFlags
	follow bool
}

func clusterOf(name, short string, do func(*clusterFlags, *cobra.Command, []string) error) *cobra.Command {
	var flags clusterFlags
	cmd := &cobra.Command{
		Use:   name + " (FILE | --config FILE) [key=value …]",
		Short: short,
		RunE:  func(cmd *cobra.Command, args []string) error { return do(&flags, cmd, flags.settings(args)) },
	}
	if name != "render" && name != "submit" {
		cmd.Use = name + " [FILE | --config FILE] [key=value …]"
		cmd.Long = short + ". Without a file it is the run that you have sent last, or that was sent\n" +
			"last of those below ./checkpoints or TRINITY_CHECKPOINT_ROOT_DIR."
	}
	flags.add(cmd)
	flags.command = "cluster " + name
	if name == "logs" {
		cmd.Flags().BoolVarP(&flags.follow, "follow", "f", false, "go on until the run ends")
	}
	return cmd
}

// render prints the script of a scheduler, and the groups of the run.
func (f *clusterFlags) render(cmd *cobra.Command, args []string) error {
	cfg, err := f.load(args)
	if err != nil {
		return err
	}
	launches, err := place.LauncherOf(cfg)
	if err != nil {
		return err
	}
	groups, err := settle.RenderPrograms(cfg)
	if err != nil {
		return err
	}
	if scheduler, ok := launches.(launcher.Scheduler); ok {
		g, err := f.driver(cfg, args)
		if err != nil {
			return err
		}
		script, err := scheduler.Script(g)
		if err != nil {
			return err
		}
		groups = fmt.Sprintf("# trinity cluster submit sends\n%s\n# trinity run on this machine sends\n%s", script, groups)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), groups)
	return err
}

// submit sends the run, unless it has been sent and has not ended.
func (f *clusterFlags) submit(cmd *cobra.Command, args []string) error {
	cfg, err := f.load(args)
	if err != nil {
		return err
	}
	scheduler, err := schedulerOf(cfg)
	if err != nil {
		return err
	}
	at := filepath.Join(cfg.CheckpointJobDir, sentFile)
	if err := f.checkEnded(cmd.Context(), at); err != nil {
		return err
	}
	g, err := f.driver(cfg, args)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(cfg.CheckpointJobDir, 0o755); err != nil {
		return err
	}
	id, err := scheduler.Submit(cmd.Context(), g)
	if err != nil {
		return err
	}
	path, err := filepath.Abs(f.file(args))
	if err != nil {
		return err
	}
	now := submission{
		ID: id, Launcher: cfg.Settled()[0].Engines.Launch, Config: path, Settings: settingsOf(args), Engine: f.engine, Time: time.Now(),
	}
	if err := errors.Join(now.write(at), noteLast(at)); err != nil {
		return fmt.Errorf("the run is %s of the scheduler, and that could not be noted: %w", id, err)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s; its output: trinity cluster logs --follow\n", id)
	return err
}

// checkEnded returns an error unless the run that a file names has ended. There may be no file.
func (f *clusterFlags) checkEnded(ctx context.Context, file string) error {
	was, err := readSent(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var scheduler launcher.Scheduler
	if err == nil {
		scheduler, err = f.schedulerOf(was)
	}
	var state string
	var ended bool
	if err == nil {
		state, ended, err = scheduler.Status(ctx, was.ID)
	}
	switch {
	case err != nil:
		return fmt.Errorf("this run was sent before, and may not have ended: %w; if it has, delete %s", err, file)
	case !ended:
		return fmt.Errorf("this run is %s of %s already (%s): end it with trinity cluster down", was.ID, was.Launcher, state)
	}
	return nil
}

func (f *clusterFlags) status(cmd *cobra.Command, args []string) error {
	scheduler, was, err := f.sent(args)
	if err != nil {
		return err
	}
	state, ended, err := scheduler.Status(cmd.Context(), was.ID)
	if ended && was.Down && strings.HasPrefix(strings.ToUpper(state), "FAILED") { // as a driver does that is told to end
		state = "ended by trinity cluster down"
	}
	if err == nil {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), was.ID, state)
	}
	return err
}

func (f *clusterFlags) logs(cmd *cobra.Command, args []string) error {
	scheduler, was, err := f.sent(args)
	if err != nil {
		return err
	}
	return scheduler.Logs(cmd.Context(), was.ID, f.follow, cmd.OutOrStdout())
}

func (f *clusterFlags) down(cmd *cobra.Command, args []string) error {
	scheduler, was, err := f.sent(args)
	if err != nil {
		return err
	}
	if _, ended, err := scheduler.Status(cmd.Context(), was.ID); err == nil && !ended {
		was.Down = true
		if err := was.write(was.file); err != nil {
			return err
		}
	}
	return endRun(cmd.Context(), scheduler, was.ID, downTime)
}

// downTime is how long a scheduler may take to end a run, which may write a checkpoint before: it may
// never end a job whose machine is gone.
const downTime = 15 * time.Minute

// endRun ends a run of a scheduler within a limit of time.
func endRun(ctx context.Context, scheduler launcher.Scheduler, id string, limit time.Duration) error {
	late := fmt.Errorf("it has not ended for %v: run the command again, or use the scheduler's tools", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	return scheduler.Down(ctx, id)
}

// sentFile, in the directory of a run, says what the scheduler calls it.
const sentFile = "cluster.json"

// submission is a run that a scheduler has got.
type submission struct {
	ID       string    `json:"id"`
	Launcher string    `json:"launcher"`
	Config   string    `json:"config"` // absolute path
	Settings []string  `json:"settings"`
	Engine   string    `json:"engine,omitempty"` // of --engine
	Time     time.Time `json:"time"`
	Down     bool      `json:"down,omitempty"` // it was told to end before it had ended

	file string // that says so
}

// write writes the file that says so.
func (s submission) write(file string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.WriteFile(file, append(data, '\n'))
}

func readSent(path string) (s submission, err error) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	s.file = path
	return s, err
}

// sent returns the run that a configuration names, or else the one that was sent last.
func (f *clusterFlags) sent(args []string) (launcher.Scheduler, submission, error) {
	at := ""
	if f.path == "" && len(args) == 0 {
		root := os.Getenv("TRINITY_CHECKPOINT_ROOT_DIR")
		if root == "" {
			root = "checkpoints"
		}
		if at = newestSent(root); at == "" {
			const say = "no run was sent by you or below %s: name its configuration, or send it with trinity cluster submit"
			return nil, submission{}, fmt.Errorf(say, root)
		}
	} else {
		cfg, err := f.load(args)
		if err != nil {
			return nil, submission{}, err
		}
		at = filepath.Join(cfg.CheckpointJobDir, sentFile)
	}
	was, err := readSent(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, submission{}, fmt.Errorf("%s is not there: send the run with trinity cluster submit", at)
	}
	if err != nil {
		return nil, submission{}, fmt.Errorf("%s: %w", at, err)
	}
	scheduler, err := f.schedulerOf(was)
	return scheduler, was, err
}

// schedulerOf returns the scheduler that has a run.
func (f *clusterFlags) schedulerOf(was submission) (launcher.Scheduler, error) {
	cfg, err := config.Load(was.Config, config.Options{Overrides: was.Settings, Engine: was.Engine})
	if err != nil {
		return nil, err
	}
	if now := cfg.Settled()[0].Engines.Launch; now != was.Launcher {
		problem := fmt.Sprintf("the run was sent to %s as %s, and this is %s", was.Launcher, was.ID, now)
		return nil, cfg.At("cluster.launcher", problem, "set it back")
	}
	return schedulerOf(cfg)
}

// lastFile returns the file with the path of the file of the run that this user has sent last.
func lastFile() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "trinity", "cluster-last"), err
}

// noteLast notes the file of the run that was sent last. A user without a home finds runs below the root.
func noteLast(file string) error {
	path, err := lastFile()
	if err != nil {
		return nil
	}
	abs, err := filepath.Abs(file)
	if err == nil {
		err = durable.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = durable.WriteFile(path, []byte(abs+"\n"))
	}
	return err
}

// newestSent returns the file of the run that was sent last, by this user or below a root; "" if there is
// none.
func newestSent(root string) (newest string) {
	files, _ := filepath.Glob(filepath.Join(root, "*", "*", sentFile))
	in, _ := filepath.Glob(filepath.Join(root, "*", "*", "*", sentFile)) // of a group of runs
	if path, err := lastFile(); err == nil {
		noted, _ := os.ReadFile(path)
		in = append(in, strings.TrimSpace(string(noted)))
	}
	var last time.Time
	for _, file := range append(files, in...) {
		if s, err := readSent(file); err == nil && s.Time.After(last) {
			newest, last = file, s.Time
		}
	}
	return newest
}

// schedulerOf returns the launcher of a configuration, which must be a scheduler.
func schedulerOf(cfg *config.Config) (launcher.Scheduler, error) {
	launches, err := place.LauncherOf(cfg)
	if err != nil {
		return nil, err
	}
	scheduler, ok := launches.(launcher.Scheduler)
	if !ok {
		return nil, cfg.At("cluster.launcher", fmt.Sprintf("%s schedules no runs", cfg.Settled()[0].Engines.Launch), "use trinity run")
	}
	return scheduler, nil
}

// file returns the path of the configuration.
func (f *clusterFlags) file(args []string) string {
	if f.path != "" {
		return f.path
	}
	return args[0]
}

// settingsOf returns the key=value arguments.
func settingsOf(args []string) (settings []string) {
	for _, arg := range args {
		if strings.Contains(arg, "=") {
			settings = append(settings, arg)
		}
	}
	return settings
}

// fromEnvironment finds the variables that a configuration names.
var fromEnvironment = regexp.MustCompile(`\$\{oc\.env:([A-Za-z_][A-Za-z0-9_]*)`)

// nameOf returns the name of a run as schedulers accept it: at most 32 lower-case letters, digits and
// '-', and a letter first.
func nameOf(run string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(run), "-"), "-")
	if name == "" || name[0] <= '9' {
		name = "run-" + name
	}
	return strings.Trim(name[:min(len(name), 32)], "-")
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// driver returns the group of a run's driver. It has the configuration, and the variables that the
// configuration and the settings name, for a scheduler that does not bring them along.
func (f *clusterFlags) driver(cfg *config.Config, args []string) (trinity.ProcessGroup, error) {
	path := f.file(args)
	data, err := os.ReadFile(path)
	if err != nil {
		return trinity.ProcessGroup{}, err
	}
	here, err := os.Getwd()
	if err != nil {
		return trinity.ProcessGroup{}, err
	}
	if below, err := filepath.Rel(here, path); err == nil && filepath.IsLocal(below) { // an absolute path
		path = below
	}
	settings := settingsOf(args)
	for _, setting := range settings {
		if key := config.SecretIn(setting); key != "" {
			return trinity.ProcessGroup{}, fmt.Errorf("command line: %s is a secret, which the scheduler would show: "+
				"set a variable and write '${oc.env:VARIABLE}' in its place", key)
		}
	}
	g := trinity.ProcessGroup{
		Name: nameOf(cfg.Name), Nodes: max(1, cfg.Cluster.NodeNum), GPUs: cfg.Cluster.GPUPerNode,
		Command: append([]string{"trinity", "run", "--config", path}, settings...), Secret: map[string]string{},
	}
	if filepath.IsLocal(path) {
		g.Files = map[string][]byte{filepath.ToSlash(path): data}
	}
	for _, match := range fromEnvironment.FindAllStringSubmatch(string(data)+strings.Join(settings, "\n"), -1) {
		if value, ok := os.LookupEnv(match[1]); ok {
			g.Secret[match[1]] = value
		}
	}
	if f.engine != "" {
		g.Command = append(g.Command, "--engine", f.engine)
	}
	return g, nil
}
