package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/millrace/millrace/internal/account/panics"
	"github.com/millrace/millrace/internal/tier/rounds"
)

// Upstream has what the replica must know before it answers: the upstream's version, what
// the upstream serves, and whether the replica may act for users.
type Upstream struct {
	discovery  *discovery.DiscoveryClient
	rights     authorizationclient.AuthorizationV1Interface
	users      authenticationclient.AuthenticationV1Interface
	configMaps corev1client.ConfigMapsGetter
	cfg        Config
	// newest is what Read has read last. It is nil before the first Read.
	newest atomic.Pointer[description]
	// version is the question of LookAtVersion.
	version *rounds.Question[string]
	// frontProxy is what the upstream published of front proxies at the last Read that could
	// tell. It is nil before the first such Read.
	frontProxy atomic.Pointer[FrontProxyHeaders]

	impersonation struct {
		// asked has the question that is under way.
		asked singleflight.Group
		// last is the last answer. It is nil before the first answer.
		last atomic.Pointer[impersonationRight]
	}
}

// impersonationRight is an answer of the upstream, whether the replica may act for users.
type impersonationRight struct {
	allowed bool
	// until is when the upstream is to be asked again.
	until time.Time
}

// description is what the upstream is and serves. It is immutable.
type description struct {
	version string
	// skew is how many minor versions the upstream's is newer than this program's. It is
	// unknownSkew if that cannot be told.
	skew   int
	served map[schema.GroupVersionResource]bool
	// versions are the versions of each group, the preferred one first.
	versions map[string][]string
}

const (
	// descriptionPeriod is how old a description may be while the upstream answers, except for
	// the version, which is versionPeriod old at most. After an upgrade of the upstream, a
	// replica whose objects come from etcd may answer as the version before for versionPeriod.
	descriptionPeriod = 30 * time.Second
	versionPeriod     = 2 * time.Second
	// impersonationPeriod is how long the upstream's answer about impersonation holds. If
	// the upstream does not answer within impersonationTimeout, it is asked again after
	// impersonationRetry.
	impersonationPeriod  = time.Minute
	impersonationTimeout = 10 * time.Second
	impersonationRetry   = time.Second
)

// Config configures Upstream.
type Config struct {
	// Door leads to the upstream. It is needed.
	Door *Door
	// Own is the version of this program.
	Own version.Info
	// Logger receives what changes at the upstream. Nil means slog.Default.
	Logger *slog.Logger
	// Panics counts panics of what asks the upstream. Nil counts none.
	Panics *panics.Counter
}

// New makes an Upstream. It asks nothing. Read must succeed before the methods are called that
// use what it has read: Version, Skew, Serves, Versions, PreferredVersion, First,
// LookAtVersion, CheckSibling and Run.
func New(cfg Config) (*Upstream, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	config := cfg.Door.Own()
	asks, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	rights, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	users, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the upstream: %w", err)
	}
	u := &Upstream{discovery: asks, rights: rights, users: users, configMaps: core, cfg: cfg}
	u.version = rounds.New(rounds.Config[string]{Ask: u.lookNow, Timeout: lookTimeout})
	return u, nil
}

// Read asks the upstream for its version, for what it serves, and for what it publishes
// of front proxies.
func (u *Upstream) Read() error {
	info, err := u.discovery.ServerVersion()
	if err != nil {
		return fmt.Errorf("read the upstream's version: %w", err)
	}
	groups, lists, err := u.discovery.ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return fmt.Errorf("read what the upstream serves: %w", err)
	}
	d := &description{
		version: versionText(info), skew: skew(info, &u.cfg.Own),
		served: map[schema.GroupVersionResource]bool{}, versions: map[string][]string{},
	}
	for _, group := range groups {
		versions := []string{group.PreferredVersion.Version}
		for _, v := range group.Versions {
			if v.Version != group.PreferredVersion.Version {
				versions = append(versions, v.Version)
			}
		}
		d.versions[group.Name] = versions
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			d.served[gv.WithResource(r.Name)] = true
		}
	}
	u.readFrontProxy()
	before := u.newest.Swap(d)
	if before == nil || before.version != d.version {
		u.cfg.Logger.Info("Read the upstream's version", "version", d.version, "builtIn", u.cfg.Own.GitVersion)
	}
	return nil
}

// ReadVersion asks the upstream for its version, and changes nothing. It uses the connections
// of all clients of Door.Own. So a load balancer of connections leads it to the server that
// answers those clients.
func (u *Upstream) ReadVersion(ctx context.Context) (string, error) {
	info, err := u.discovery.ServerVersionWithContext(ctx)
	if err != nil {
		return "", fmt.Errorf("read the upstream's version: %w", err)
	}
	return versionText(info), nil
}

// unknownSkew stands for versions that cannot be compared. It is larger than every skew at
// which a replica answers for built-in resources.
const unknownSkew = math.MaxInt

// skew returns how many minor versions a is newer than b, or unknownSkew.
func skew(a, b *version.Info) int {
	theirMajor, theirs, err := effective(a)
	ownMajor, own, ownErr := effective(b)
	if theirMajor != ownMajor || err != nil || ownErr != nil {
		return unknownSkew
	}
	return theirs - own
}

// versionText names a version, and the version that it emulates if that differs.
func versionText(v *version.Info) string {
	if v.EmulationMinor == "" || v.EmulationMinor == v.Minor {
		return v.GitVersion
	}
	return v.GitVersion + ", as " + v.EmulationMajor + "." + v.EmulationMinor
}

// effective returns the version that a server behaves as. A server that emulates another
// version has its fields, defaults and feature gates (KEP-4330). Some providers add a plus
// sign.
func effective(v *version.Info) (major string, minor int, err error) {
	major, text := v.Major, v.Minor
	if v.EmulationMinor != "" {
		major, text = v.EmulationMajor, v.EmulationMinor
	}
	minor, err = strconv.Atoi(strings.TrimSuffix(text, "+"))
	return major, minor, err
}

// Run keeps the description current until the context ends. While the upstream does not
// answer, the old description stays.
func (u *Upstream) Run(ctx context.Context) {
	all, version := time.NewTicker(descriptionPeriod), time.NewTicker(versionPeriod)
	defer all.Stop()
	defer version.Stop()
	for {
		select {
		case <-version.C:
			_ = u.LookAtVersion(ctx) // the next look may succeed
		case <-all.C:
			if err := u.Read(); err != nil {
				u.cfg.Logger.Warn("Cannot read what the upstream serves; the last answer stays", "err", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// Version returns the upstream's version.
func (u *Upstream) Version() string { return u.newest.Load().version }

// Skew returns how many minor versions the upstream is newer than this program. It is
// negative if the upstream is older, and unknownSkew if the versions cannot be compared.
func (u *Upstream) Skew() int { return u.newest.Load().skew }

// Serves reports whether the upstream serves a resource in a version.
func (u *Upstream) Serves(gvr schema.GroupVersionResource) bool { return u.newest.Load().served[gvr] }

// Versions returns all versions that the upstream serves.
func (u *Upstream) Versions() []schema.GroupVersion {
	seen := map[schema.GroupVersion]bool{}
	for gvr := range u.newest.Load().served {
		seen[gvr.GroupVersion()] = true
	}
	var versions []schema.GroupVersion
	for gv := range seen {
		versions = append(versions, gv)
	}
	slices.SortFunc(versions, func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) })
	return versions
}

// PreferredVersion returns the version in which the upstream prefers to serve a resource: the
// first of the group's versions that has it. It returns false if the upstream does not serve
// the resource.
func (u *Upstream) PreferredVersion(gr schema.GroupResource) (schema.GroupVersionResource, bool) {
	d := u.newest.Load()
	for _, v := range d.versions[gr.Group] {
		if gvr := gr.WithVersion(v); d.served[gvr] {
			return gvr, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// MayImpersonate reports whether the upstream lets the replica act for all users and groups.
// It implements ProxyConfig.MayImpersonate. Callers at the same time share a question. The
// last answer holds until the upstream has given a new one, since the upstream decides about
// each request anyway. Before the first answer, it returns false if the context ends.
func (u *Upstream) MayImpersonate(ctx context.Context) bool {
	last := u.impersonation.last.Load()
	if last != nil && time.Now().Before(last.until) {
		return last.allowed
	}
	asked := u.impersonation.asked.DoChan("", func() (answer any, err error) {
		// The goroutine is nobody's request, and a panic there would end the process.
		err = u.cfg.Panics.Guard(panics.Request, func() error {
			answer = u.askImpersonation(last)
			return nil
		})
		return answer, err
	})
	if last != nil {
		return last.allowed
	}
	select {
	case result := <-asked:
		answer, ok := result.Val.(*impersonationRight)
		return ok && answer.allowed
	case <-ctx.Done():
		return false
	}
}

// askImpersonation asks the upstream for the right, and records its answer. If the upstream
// does not answer, the last answer stays, or false if there is none.
func (u *Upstream) askImpersonation(last *impersonationRight) *impersonationRight {
	ctx, cancel := context.WithTimeout(context.Background(), impersonationTimeout)
	defer cancel()
	answer := &impersonationRight{}
	allowed, err := u.reviewImpersonation(ctx)
	if err != nil {
		u.cfg.Logger.Warn("Cannot ask the upstream whether this replica may impersonate users; its last answer stays", "err", err)
		answer.allowed, answer.until = last != nil && last.allowed, time.Now().Add(impersonationRetry)
	} else {
		answer.allowed, answer.until = allowed, time.Now().Add(impersonationPeriod)
	}
	u.impersonation.last.Store(answer)
	return answer
}

func (u *Upstream) reviewImpersonation(ctx context.Context) (allowed bool, err error) {
	for _, resource := range []string{"users", "groups"} {
		review, err := u.rights.SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: resource},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		if !review.Status.Allowed {
			return false, nil
		}
	}
	return true, nil
}
