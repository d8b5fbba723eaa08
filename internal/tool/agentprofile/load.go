package agentprofile

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed files/*.yaml
var embedded embed.FS

// Names of the profiles that every node runs.
const (
	Kubelet   = "kubelet"
	KubeProxy = "kube-proxy"
)

// Set has the profiles of the binary and the profiles of a directory.
type Set struct {
	files map[string]fs.FS // by name of the profile
}

// Open returns the profiles. dir is the directory with the user's own files, or "".
func Open(dir string) (*Set, error) {
	own, err := fs.Sub(embedded, "files")
	if err != nil {
		return nil, fmt.Errorf("open profiles: %w", err)
	}
	s := &Set{files: map[string]fs.FS{}}
	if _, err := s.add(own); err != nil {
		return nil, err
	}
	if dir == "" {
		return s, nil
	}
	n, err := s.add(os.DirFS(dir))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read profiles in %s: %w; give a directory of YAML files", dir, err)
	case n == 0:
		return nil, fmt.Errorf("read profiles in %s: it has no file that ends in .yaml", dir)
	}
	return s, nil
}

// add adds the profiles of a directory, and returns their number.
func (s *Set) add(files fs.FS) (n int, err error) {
	entries, err := fs.ReadDir(files, ".")
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".yaml"); ok && !entry.IsDir() {
			s.files[name] = files
			n++
		}
	}
	return n, err
}

// Names returns the names of all profiles that a user can choose, sorted: all but Kubelet and
// KubeProxy.
func (s *Set) Names() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.files)), func(name string) bool { return name == Kubelet || name == KubeProxy })
}

// Text returns the content of a profile's file.
func (s *Set) Text(name string) ([]byte, error) {
	files := s.files[name]
	if files == nil {
		return nil, fmt.Errorf("there is no profile %q: choose from %s, or add %s.yaml to --profiles", name, strings.Join(s.Names(), ", "), name)
	}
	return fs.ReadFile(files, name+".yaml")
}

// Load reads and checks a profile, and fills in defaults.
func (s *Set) Load(name string) (*Profile, error) {
	text, err := s.Text(name)
	if err != nil {
		return nil, err
	}
	p := &Profile{Name: name}
	err = yaml.UnmarshalStrict(text, p)
	if err == nil {
		err = p.check()
	}
	if err == nil {
		err = p.checkPods()
	}
	if err != nil {
		return nil, fmt.Errorf("read profile %s: %w", name, err)
	}
	return p, nil
}

// checkPods checks that the profile of the kubelet, and no other profile, reads pods to run them.
func (p *Profile) checkPods() error {
	ownPods, ofPods := 0, 0
	for i := range p.Agents {
		for _, r := range p.Agents[i].Reads {
			if r.OwnPods {
				ownPods++
			}
			if r.OfPods {
				ofPods++
			}
		}
	}
	switch {
	case p.Name != Kubelet && ownPods+ofPods > 0:
		return errors.New("ownPods and ofPods are for the profile kubelet alone")
	case p.Name == Kubelet && (ownPods != 1 || len(p.Agents) != 1 || p.Agents[0].Per != PerNode || p.Agents[0].Instances != 1):
		return errors.New("it must have one agent, per node, and one read with ownPods")
	}
	return nil
}
