package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/millrace/millrace/internal/conn/datadir"
)

// Flags name an API server and a user. The zero value means the server and user that
// kubectl would use. If the user has no kubeconfig of their own, it means the kubeconfig
// of the default data directory.
type Flags struct {
	// Kubeconfig is the file. It takes precedence over all others.
	Kubeconfig string
	// Context is the context of the file. "" names the current context of the file.
	Context string
	// Server is another address for the same user and authority. "" keeps the address of
	// the file.
	Server string
	// DataDir is the directory of a millrace serve, as whose administrator the command acts.
	// It takes precedence over the user's own kubeconfig.
	DataDir string
	// Deliberate says that the command loads a server heavily, or writes to it. Nobody
	// should reach their cluster with it by accident, so ~/.kube/config is not used unless
	// it is named.
	Deliberate bool
	// At says that the command's flags for Kubeconfig and Context are --at and --at-context.
	At bool
}

// names returns the names of the flags for Kubeconfig and Context, for errors.
func (f *Flags) names() (file, context string) {
	if f.At {
		return "--at", "--at-context"
	}
	return "--kubeconfig", "--context"
}

// AddTo adds --kubeconfig and --context.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	set.StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig of the server ("+f.defaults()+")")
	AddContext(set, &f.Context)
}

// AddContext adds --context alone, for a command that takes several kubeconfigs.
func AddContext(set *pflag.FlagSet, name *string) {
	set.StringVar(name, "context", "", "context of the kubeconfig (default its current one)")
}

// AddServer adds --server.
func (f *Flags) AddServer(set *pflag.FlagSet) {
	set.StringVar(&f.Server, "server", "", "another address for the kubeconfig's user and authority")
}

// AddDataDir adds --data-dir.
func (f *Flags) AddDataDir(set *pflag.FlagSet) {
	set.StringVar(&f.DataDir, "data-dir", "", "directory of the millrace serve whose server to ask, as its administrator")
}

// Given reports whether Kubeconfig or DataDir names the server.
func (f *Flags) Given() bool { return f.Kubeconfig != "" || f.DataDir != "" }

func (f *Flags) defaults() string {
	if f.Deliberate {
		return DeliberateDefaults
	}
	return Defaults
}

// Defaults and DeliberateDefaults say in a flag's help which kubeconfig is used if none is given.
const (
	Defaults           = "default as kubectl's, else the kubeconfig of the millrace serve in " + datadir.DefaultPath
	DeliberateDefaults = "default $KUBECONFIG, else the kubeconfig of the millrace serve in " + datadir.DefaultPath
)

// Load reads the configuration of the server. agent names the command in the user agent. The
// caller may change the result.
func (f *Flags) Load(agent string) (*rest.Config, error) {
	file, err := f.file()
	if err != nil {
		return nil, err
	}
	config, err := f.loadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w: %s", err, f.advice())
	}
	if config.UserAgent = "millrace-" + agent; f.Server != "" {
		config.Host = f.Server
	}
	// A server that cannot be named or trusted is an error of the kubeconfig, too.
	if _, _, err := rest.DefaultServerUrlFor(config); err != nil {
		return nil, fmt.Errorf("read the server's address %q: %w: give one like https://10.0.0.1:6443", config.Host, err)
	}
	if _, err := rest.TLSConfigFor(config); err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w: %s", err, f.advice())
	}
	return config, nil
}

// file returns the kubeconfig to read, and "" where clientcmd finds it, or the pod's
// service account takes its place.
func (f *Flags) file() (string, error) {
	if f.Kubeconfig != "" {
		return f.Kubeconfig, nil
	}
	file, err := AdminFile(f.DataDir, f.Deliberate)
	if err != nil && !f.Deliberate && f.DataDir == "" {
		if _, inPod := rest.InClusterConfig(); inPod == nil {
			return "", nil
		}
	}
	return file, err
}

// AdminFile returns the administrator's kubeconfig in a data directory. It is empty if the
// user has a kubeconfig of their own and names no directory. deliberate is
// Flags.Deliberate.
func AdminFile(dataDir string, deliberate bool) (string, error) {
	if dataDir == "" {
		if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "" {
			return "", nil
		}
		if _, err := os.Stat(clientcmd.RecommendedHomeFile); err == nil && !deliberate {
			return "", nil
		}
	}
	paths, err := datadir.Lookup(dataDir)
	if err != nil && dataDir == "" && deliberate {
		return "", fmt.Errorf("the kubeconfig in your home is used only if it is named, and %w", err)
	}
	if err != nil && dataDir == "" {
		return "", fmt.Errorf("there is no kubeconfig of your own, and %w", err)
	}
	return paths.AdminKubeconfig, err
}

// loadFile reads a file, or what the environment names. It does not fall back to the pod's
// service account for a file that is there and says nothing.
func (f *Flags) loadFile(file string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = file, false
	all, err := rules.Load()
	if err != nil {
		return nil, oneLine(err)
	}
	if file == "" && len(all.Clusters) == 0 && f.Context == "" {
		if config, err := rest.InClusterConfig(); err == nil {
			return config, nil
		}
	}
	names := rules.GetLoadingPrecedence()
	if file != "" {
		names = []string{file}
	}
	_, there := all.Contexts[f.Context]
	switch {
	case len(all.Clusters) == 0:
		return nil, fmt.Errorf("%s has no cluster, or is not there", strings.Join(names, ", "))
	case f.Context != "" && !there:
		return nil, fmt.Errorf("%s has no context %q, but %s", strings.Join(names, ", "), f.Context, contexts(all.Contexts))
	case f.Context == "" && all.CurrentContext == "":
		_, flag := f.names()
		return nil, fmt.Errorf("%s has no current context, but %s: give %s", strings.Join(names, ", "), contexts(all.Contexts), flag)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*all, f.Context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("%s: the cluster of the context %q is not in it", strings.Join(names, ", "), cmp.Or(f.Context, all.CurrentContext))
	case err != nil:
		return nil, fmt.Errorf("%s: %w", strings.Join(names, ", "), oneLine(err))
	}
	return config, nil
}

// maxContexts bounds the names of contexts in an error.
const maxContexts = 5

// contexts names the contexts that there are.
func contexts[V any](all map[string]V) string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	switch n := len(names); {
	case n == 0:
		return "none at all"
	case n > maxContexts:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxContexts], ", "), n-maxContexts)
	}
	return strings.Join(names, ", ")
}

// advice says what to do about a kubeconfig that cannot be used.
func (f *Flags) advice() string {
	file, context := f.names()
	switch {
	case f.Context != "":
		return "give another " + context + " or " + file
	case f.Kubeconfig != "":
		return "give another " + file
	}
	return "repair it, or give " + file
}

// oneLine joins the lines of an error.
func oneLine(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}
