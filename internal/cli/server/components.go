package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	kubecli "k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/millrace/millrace/internal/conn/datadir"
	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

// newKubectlCommand makes a command that is kubectl, which parses its own flags.
func newKubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "Run kubectl, with the data directory's kubeconfig when there is no other",
		DisableFlagParsing: true,
		Run: func(_ *cobra.Command, args []string) {
			dataDir, args := takeDataDir(args)
			explainFatal(useKubeconfig(dataDir))
			full := append([]string{"kubectl"}, args...)
			// Plugins and exec credentials read the process's own arguments.
			os.Args = full
			streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
			cmd := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
				PluginHandler: kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
				Arguments:     full,
				IOStreams:     streams,
			})
			cmd.Long += dataDirHelp
			if err := kubecli.RunNoErrOutput(cmd); err != nil {
				cmdutil.CheckErr(err)
			}
		},
	}
}

// dataDirHelp is added to the help of commands that parse their own flags.
const dataDirHelp = `

Millrace adds --data-dir: the directory of a millrace serve, ` + datadir.DefaultPath + ` by default,
whose kubeconfigs and keys take the place of flags that are not given.`

// useKubeconfig makes kubectl use the data directory's kubeconfig if --data-dir is given,
// or if the user has no kubeconfig of their own. It returns an error if there is no such
// directory.
func useKubeconfig(dataDir string) error {
	file, err := kubeconfig.AdminFile(dataDir, false)
	if err != nil || file == "" {
		return err
	}
	return os.Setenv(clientcmd.RecommendedConfigPathEnvVar, file)
}

// explainFatal makes kubectl print why it has no kubeconfig when it fails for that
// reason: without one it tries localhost:8080. A nil error changes nothing.
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

// newComponentCommand makes a command that is a component of Kubernetes, which parses
// its own flags. defaults are flags and their values for a data directory.
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
			os.Exit(kubecli.Run(cmd))
			return nil
		},
	}
}

// nameProgram gives the process the name that a component has as a program of its own.
// client-go takes its user agent from the process's arguments, and that becomes the
// field manager of the objects that the component writes.
//
// Upstream: k8s.io/client-go/rest.DefaultKubernetesUserAgent; compare at each upgrade.
func nameProgram(name string) { os.Args[0] = name }

// withDefaults puts default flags in front of the user's arguments. It leaves out flags
// that the user gave. Without --data-dir it adds none if the user names another
// configuration or asks for help.
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

// takeDataDir removes --data-dir, up to an argument "--", from arguments that a
// component parses. It returns the flag's value and the other arguments.
func takeDataDir(args []string) (dataDir string, others []string) {
	for i := 0; i < len(args); i++ {
		value, inline := strings.CutPrefix(args[i], "--data-dir=")
		switch {
		case args[i] == "--":
			return dataDir, append(others, args[i:]...)
		case inline:
			dataDir = value
		case args[i] == "--data-dir" && i+1 < len(args):
			i++
			dataDir = args[i]
		default:
			others = append(others, args[i])
		}
	}
	return dataDir, others
}

// hasFlag reports whether the arguments set a flag, in any of the forms that pflag
// and package flag accept.
func hasFlag(args []string, name string) bool {
	for _, arg := range args {
		arg = strings.TrimLeft(arg, "-")
		if arg == name || strings.HasPrefix(arg, name+"=") {
			return true
		}
	}
	return false
}
