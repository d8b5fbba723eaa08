package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"k8s.io/component-base/cli"

	"github.com/millrace/millrace/internal/datadir"
)

// newKubectlCommand is kubectl. It parses its own flags.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "Run kubectl, with the data directory's kubeconfig when there is no other",
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			dataDir, args := takeDataDir(args)
			explainFatal(useKubeconfig(dataDir))
			full := append([]string{"kubectl"}, args...)
			// Plugins and exec credentials look at the process's own arguments.
			os.Args = full
			streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
			cmd := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
				PluginHandler: kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
				Arguments:     full,
				IOStreams:     streams,
			})
			cmd.Long += dataDirHelp
			if err := cli.RunNoErrOutput(cmd); err != nil {
				cmdutil.CheckErr(err)
			}
		},
	}
}

// dataDirHelp is added to the help of commands that parse their own flags.
const dataDirHelp = `

Millrace adds --data-dir: the directory of a millrace serve, ` + datadir.DefaultPath + ` by default,
whose kubeconfigs and keys take the place of flags that are not given.`

// useKubeconfig points kubectl at the data directory if it is named, or if the
// user has no kubeconfig of their own. The error says why that cannot be.
func useKubeconfig(dataDir string) error {
	if dataDir == "" {
		if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
			return nil
		}
		if _, err := os.Stat(clientcmd.RecommendedHomeFile); err == nil {
			return nil
		}
	}
	paths, err := datadir.Lookup(dataDir)
	if err != nil {
		return err
	}
	return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, paths.AdminKubeconfig)
}

// explainFatal has kubectl, when it fails at the server that it tries without
// any kubeconfig, say why it has none.
func explainFatal(noKubeconfig error) {
	if noKubeconfig == nil {
		return
	}
	cmdutil.BehaviorOnFatal(func(message string, code int) {
		fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
		if strings.Contains(message, "localhost:8080") {
			fmt.Fprintln(os.Stderr, "millrace:", noKubeconfig)
		}
		os.Exit(code)
	})
}

// newComponentCommand is a component of Kubernetes with defaults out of the data
// directory. It parses its own flags.
func newComponentCommand(name, short string, component func() *cobra.Command, defaults func(datadir.Paths) [][2]string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dataDir, args := takeDataDir(args)
			args, err := withDefaults(args, dataDir, defaults)
			if err != nil {
				return err
			}
			cmd := component()
			cmd.Long += dataDirHelp
			cmd.SetArgs(args)
			nameProgram(cmd.Name())
			os.Exit(cli.Run(cmd))
			return nil
		},
	}
}

// nameProgram has the process's own clients call themselves what they are called where
// each component is a program of its own. That name is the field manager of the objects that they
// write, and client-go takes it from the process's arguments.
func nameProgram(name string) { os.Args[0] = name }

// withDefaults puts flags that the user did not give in front of those given.
func withDefaults(args []string, dataDir string, defaults func(datadir.Paths) [][2]string) ([]string, error) {
	if dataDir == "" && (hasFlag(args, "kubeconfig") || hasFlag(args, "config") || hasFlag(args, "help") || hasFlag(args, "h")) {
		return args, nil
	}
	paths, err := datadir.Lookup(dataDir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range defaults(paths) {
		if !hasFlag(args, f[0]) {
			all = append(all, "--"+f[0]+"="+f[1])
		}
	}
	return append(all, args...), nil
}

func controllerManagerDefaults(p datadir.Paths) [][2]string {
	return [][2]string{
		{"kubeconfig", p.ControllerManagerKubeconfig},
		{"authentication-kubeconfig", p.ControllerManagerKubeconfig},
		{"authorization-kubeconfig", p.ControllerManagerKubeconfig},
		{"bind-address", "127.0.0.1"},
		{"cert-dir", filepath.Join(p.Root, "controller-manager")},
		{"use-service-account-credentials", "true"},
		{"service-account-private-key-file", p.ServiceAccountKey},
		{"root-ca-file", p.CACert},
		{"cluster-signing-cert-file", p.CACert},
		{"cluster-signing-key-file", p.CAKey},
	}
}

func schedulerDefaults(p datadir.Paths) [][2]string {
	return [][2]string{
		{"kubeconfig", p.SchedulerKubeconfig},
		{"authentication-kubeconfig", p.SchedulerKubeconfig},
		{"authorization-kubeconfig", p.SchedulerKubeconfig},
		{"bind-address", "127.0.0.1"},
		{"cert-dir", filepath.Join(p.Root, "scheduler")},
	}
}

// takeDataDir removes --data-dir from arguments that another program parses.
func takeDataDir(args []string) (dataDir string, rest []string) {
	for i := 0; i < len(args); i++ {
		value, inline := strings.CutPrefix(args[i], "--data-dir=")
		switch {
		case args[i] == "--":
			return dataDir, append(rest, args[i:]...)
		case inline:
			dataDir = value
		case args[i] == "--data-dir" && i+1 < len(args):
			i++
			dataDir = args[i]
		default:
			rest = append(rest, args[i])
		}
	}
	return dataDir, rest
}

func hasFlag(args []string, name string) bool {
	for _, arg := range args {
		arg = strings.TrimLeft(arg, "-")
		if arg == name || strings.HasPrefix(arg, name+"=") {
			return true
		}
	}
	return false
}
