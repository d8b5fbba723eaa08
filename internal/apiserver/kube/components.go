package kube

import (
	"github.com/spf13/cobra"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/version"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// Version returns the version of Kubernetes, as /version reports it.
func Version() string { return version.Get().GitVersion }

// VersionInfo returns the version of Kubernetes, as an API server of this program answers
// it at /version. The caller must have applied the options.
func (o *Options) VersionInfo() apiversion.Info {
	run := o.run.GenericServerRunOptions
	return *run.ComponentGlobalsRegistry.EffectiveVersionFor(run.ComponentName).Info()
}

// NewControllerManagerCommand makes the command kube-controller-manager.
func NewControllerManagerCommand() *cobra.Command {
	return controllermanager.NewControllerManagerCommand()
}

// NewSchedulerCommand makes the command kube-scheduler.
func NewSchedulerCommand() *cobra.Command { return scheduler.NewSchedulerCommand() }
