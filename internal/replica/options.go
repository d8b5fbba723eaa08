package replica

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/pflag"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/millrace/millrace/internal/apiserver/kube"
	"github.com/millrace/millrace/internal/apiserver/program"
	"github.com/millrace/millrace/internal/replica/right"
	"github.com/millrace/millrace/internal/tier/memory"
)

// Options are the options of `millrace replica`. NewOptions makes them. The zero value is not
// usable.
type Options struct {
	// Options are the options that a replica has in common with `millrace serve`.
	*program.Options
	Kube *kube.ReplicaOptions
	// Kubeconfig is the file that leads to the upstream, and Context the context in that file.
	// A Context of "" is the current one.
	Kubeconfig, Context string
	// WriteKubeconfig is the file for the kubeconfig that leads to the replica. "" writes
	// none.
	WriteKubeconfig string
	// ProxyClientCert and ProxyClientKey are files of a front proxy's certificate. Both are "",
	// or neither.
	ProxyClientCert, ProxyClientKey string
	// Follow names resources that are followed from the start.
	Follow []string
	// Exclude names resources whose reads are always passed on.
	Exclude []string
	// CheckpointDir is the data directory of checkpoints. "" keeps none.
	CheckpointDir string
	// CheckpointInterval is the least time between two checkpoints.
	CheckpointInterval time.Duration
	// StartFrom is the kubeconfig of another replica. At the start, objects that CheckpointDir
	// lacks are loaded from there, or from the upstream if it is "".
	StartFrom string
	// AuthorizationMode is how rights are decided: AuthorizeByReview or AuthorizeByRBAC.
	AuthorizationMode string
	// ReadsOnly refuses requests that might change something.
	ReadsOnly bool
	// BudgetCPUSeconds bounds the CPU that a client may use for reads in a minute. 0 is no bound.
	BudgetCPUSeconds float64
	// BudgetBytes bounds the bytes that a client may be sent in a minute. 0 is no bound.
	BudgetBytes resource.QuantityValue
	// BoundedStaleness is how old an answer may be that cannot be proven to be new. 0
	// allows no such answer.
	BoundedStaleness time.Duration

	// FollowOnly says that only the resources of Follow are followed, and what the replica
	// itself needs.
	FollowOnly bool
	// FollowBytes is follow.Config's MaxBytes.
	FollowBytes resource.QuantityValue
	// DropUnread is follow.Config's DropAfter.
	DropUnread time.Duration

	// flags are those to which AddFlags has added.
	flags *pflag.FlagSet
}

// followedShare gives the default of FollowBytes: one part in followedShare of the memory.
// Objects take less than their size as stored, because they are packed.
const followedShare = 2

const (
	// AuthorizeByReview asks the upstream about each user and object.
	AuthorizeByReview = "SubjectAccessReview"
	// AuthorizeByRBAC looks at the upstream's RBAC objects first.
	AuthorizeByRBAC = "RBAC,SubjectAccessReview"
)

// NewOptions makes options with their defaults. Only one of two commands that share
// options may run in a process.
func NewOptions(shared *program.Options) *Options {
	return &Options{
		Options: shared, Kube: kube.NewReplicaOptions(shared.Kube), CheckpointInterval: time.Minute, AuthorizationMode: AuthorizeByReview,
		FollowBytes: resource.QuantityValue{Quantity: *resource.NewQuantity(memory.Available()/followedShare, resource.BinarySI)}, DropUnread: 2 * time.Hour,
	}
}

// AddFlags adds all flags to the flags of a command, and returns them by section.
func (o *Options) AddFlags(fs *pflag.FlagSet) cliflag.NamedFlagSets {
	var sections cliflag.NamedFlagSets
	own := sections.FlagSet("millrace")
	own.StringVar(&o.Kubeconfig, "kubeconfig", "", "Kubeconfig that leads to the upstream, the API server whose reads are answered here. Required. Its user needs the rights that docs/guides/replica-reference.md lists.")
	own.StringVar(&o.Context, "context", "", "Context of the kubeconfig. The default is its current one.")
	own.StringVar(&o.WriteKubeconfig, "write-kubeconfig", "", "File to write a kubeconfig to that leads to this replica, with the user of --kubeconfig.")
	own.StringVar(&o.ProxyClientCert, "proxy-client-cert-file", "", "Certificate with which the upstream trusts a front proxy, to pass on requests of users with client certificates. Without it the replica impersonates them, if it may.")
	own.StringVar(&o.ProxyClientKey, "proxy-client-key-file", "", "Key of --proxy-client-cert-file.")
	own.StringSliceVar(&o.Follow, "follow", nil, "Resources to follow from the start, such as pods,deployments.apps. Without --etcd-servers others are followed from their first read on; secrets only if they are named here.")
	own.StringSliceVar(&o.Exclude, "exclude", nil, "Resources whose reads are always passed on, such as secrets,events.")
	own.BoolVar(&o.FollowOnly, "follow-only", false, "Follow no other resources than those of --follow. Reads of others are passed on. Not with --etcd-servers.")
	own.Var(&o.FollowBytes, "follow-bytes", "Most bytes of objects, as stored, that are held, such as 4Gi. Beyond that, reads are passed on. The default is half of the memory of the machine or cgroup. 0 is no limit. Not with --etcd-servers.")
	own.DurationVar(&o.DropUnread, "drop-unread", o.DropUnread, "How long a resource that --follow does not name may be unread before it is not followed any more. 0 is for ever. Not with --etcd-servers.")
	own.StringVar(&o.CheckpointDir, "data-dir", "", "Directory for what the replica holds, so that a restart asks the upstream only for what came after. What etcd encrypts is left out. Without this flag nothing is kept on disk.")
	own.DurationVar(&o.CheckpointInterval, "checkpoint-interval", o.CheckpointInterval, "Least time between two checkpoints in --data-dir. Large ones are written less often: 2Mi a second on the average.")
	own.StringVar(&o.StartFrom, "start-from", "", "Kubeconfig that leads to another replica of the same upstream. At the start, objects that --data-dir lacks are loaded from there. The upstream serves what that replica lacks. Not with --etcd-servers.")
	own.StringVar(&o.AuthorizationMode, "authorization-mode", o.AuthorizationMode, "How reads are authorized: \""+AuthorizeByReview+"\" asks the upstream. \""+AuthorizeByRBAC+"\" first looks at the upstream's RBAC objects, which docs/guides/replica-reference.md says when to do.")
	own.BoolVar(&o.ReadsOnly, "reads-only", false, "Refuse requests that might change something, with 405 and the address to send them to: writes, and exec, attach, portforward and proxy. Reviews of users and rights are passed on.")
	own.Float64Var(&o.BudgetCPUSeconds, "budget-cpu-seconds-per-minute", 0, "Estimated CPU seconds that GETs and LISTs of one user at one address may take in a minute. Then its reads get 429 and a Retry-After. system:masters has no limit. 0 is no limit.")
	own.Var(&o.BudgetBytes, "budget-bytes-per-minute", "Bytes of GETs, LISTs and initial events that one user at one address may be sent in a minute, such as 1Gi. Then its reads get 429 and a Retry-After. system:masters has no limit. 0 is no limit.")
	own.DurationVar(&o.BoundedStaleness, "bounded-staleness", 0, "How old a GET or LIST without a resource version may be, such as 5s, if the cache cannot be proven to be new within 0.3 s. Such an answer has the header X-Millrace-Stale. 0 answers none.")
	o.Options.AddFlags(own)
	kubernetes := o.Kube.Flags()
	for _, name := range kubernetes.Order {
		sections.FlagSet(name).AddFlagSet(kubernetes.FlagSet(name))
	}
	for _, section := range sections.FlagSets {
		for _, name := range foreignFlags {
			_ = section.MarkHidden(name) // only one section has it
		}
		fs.AddFlagSet(section)
	}
	o.flags = fs
	return sections
}

// foreignFlags are flags of Kubernetes that have no meaning here: a replica asks its upstream
// alone about users and rights.
var foreignFlags = []string{"authentication-kubeconfig", "authorization-kubeconfig"}

// validate checks our own flags. Kubernetes checks its own.
func (o *Options) validate() error {
	if o.Kubeconfig == "" {
		return errors.New("--kubeconfig is missing: give the kubeconfig that leads to the API server to stand in front of")
	}
	if (o.ProxyClientCert == "") != (o.ProxyClientKey == "") {
		return errors.New("one of --proxy-client-cert-file and --proxy-client-key-file is missing: give both")
	}
	if o.ProxyClientCert != "" {
		if err := o.Kube.ValidateFrontProxy(); err != nil {
			return err
		}
	}
	for _, name := range foreignFlags {
		if f := o.flags.Lookup(name); f != nil && f.Changed {
			return fmt.Errorf("--%s has no meaning for a replica: leave it out", name)
		}
	}
	for _, named := range o.Follow {
		if slices.Contains(o.Exclude, named) {
			return fmt.Errorf("%s is in --follow and in --exclude: remove it from one of them", named)
		}
	}
	if err := o.validateRights(); err != nil {
		return err
	}
	if o.StartFrom != "" && o.usesEtcd() {
		return errors.New("--start-from has no meaning with --etcd-servers, from which everything is loaded: leave it out")
	}
	if o.CheckpointInterval <= 0 {
		return fmt.Errorf("--checkpoint-interval=%v is not positive: give a duration such as 1m", o.CheckpointInterval)
	}
	if o.FollowBytes.Sign() < 0 {
		return fmt.Errorf("--follow-bytes=%s is negative: give 0 for no limit", o.FollowBytes.String())
	}
	if o.DropUnread < 0 {
		return fmt.Errorf("--drop-unread=%v is negative: give 0 for never, or a duration such as 2h", o.DropUnread)
	}
	return o.Validate()
}

// validateRights checks the flags about who may read, and how much.
func (o *Options) validateRights() error {
	if o.AuthorizationMode != AuthorizeByReview && !o.usesRBAC() {
		return fmt.Errorf("--authorization-mode=%s is unknown: give %q or %q", o.AuthorizationMode, AuthorizeByReview, AuthorizeByRBAC)
	}
	if ttl := o.Kube.RightsTTL(); o.usesRBAC() && ttl < right.MinTTL {
		return fmt.Errorf("--authorization-webhook-cache-authorized-ttl=%v is too short to prove how new RBAC objects are: give %v or more, or leave RBAC out of --authorization-mode", ttl, right.MinTTL)
	}
	if o.BudgetCPUSeconds < 0 || math.IsNaN(o.BudgetCPUSeconds) {
		return fmt.Errorf("--budget-cpu-seconds-per-minute=%v is no time: give 0 for no limit, or a number of seconds", o.BudgetCPUSeconds)
	}
	if o.BoundedStaleness < 0 {
		return fmt.Errorf("--bounded-staleness=%v is negative: give 0 for none, or a duration such as 5s", o.BoundedStaleness)
	}
	if o.BudgetBytes.Sign() < 0 {
		return fmt.Errorf("--budget-bytes-per-minute=%s is negative: give 0 for no limit", o.BudgetBytes.String())
	}
	return nil
}

// usesRBAC reports whether RBAC objects decide about rights.
func (o *Options) usesRBAC() bool { return o.AuthorizationMode == AuthorizeByRBAC }

// usesEtcd reports whether objects come from etcd, and not from the upstream's API.
func (o *Options) usesEtcd() bool { return len(o.Kube.EtcdServers()) > 0 }

// mayCopy reports whether the replica may copy the objects of a resource by the upstream's
// API. With etcd it copies only what it needs for itself.
func (o *Options) mayCopy(gr schema.GroupResource) bool {
	isNeeded := gr.Group == flowcontrol.GroupName || gr.Group == apiextensions.GroupName || gr == services || slices.Contains(kube.RBACResources(), gr)
	switch {
	case isNeeded:
		return true
	case o.usesEtcd() || slices.Contains(o.Exclude, gr.String()):
		return false
	}
	return gr != schema.GroupResource{Resource: "secrets"} || slices.Contains(o.Follow, gr.String())
}
