// SPDX-License-Identifier: Apache-2.0

package volumetest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/internal/mountns"
	"github.com/volumekit/volumekit/volume"
)

// provisionedBy is the annotation that says who provisioned a PersistentVolume: the StorageClass's provisioner. See
// https://kubernetes.io/docs/reference/labels-annotations-taints/#pv-kubernetes-io-provisioned-by
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// provisioning is a trial of a provisioner. Its subject is what was provisioned.
type provisioning struct {
	*trial
	options volume.ProvisionOptions
}

// provisionChecks are about ProvisionableVolumePlugins and DeletableVolumePlugins.
var provisionChecks = []struct {
	name string
	run  func(*provisioning)
}{
	{"ProvisionDescribesWhatWasAskedFor", provisionDescribes},
	{"ProvisionAgainReturnsTheSame", provisionAgain},
	{"ACancelledProvisionReturnsAndCanBeRepeated", cancelledProvision},
	{"WhatWasProvisionedCanBeUsed", provisionedCanBeUsed},
	{"DeleteCanBeRepeated", deleteCanBeRepeated},
	{"DeleteRefusesWhatAnotherProvisionerMade", deleteRefusesForeign},
}

func runProvisioning(t *testing.T, config *Config) {
	plugin := config.New()
	_, provisions := plugin.(volume.ProvisionableVolumePlugin)
	_, deletes := plugin.(volume.DeletableVolumePlugin)
	switch {
	case !provisions && !deletes:
		if config.Provision != nil {
			t.Error("Config.Provision is set, but the plugin is no ProvisionableVolumePlugin")
		}
		return
	case config.Provision == nil:
		t.Log("not tested: the plugin provisions or deletes, but Config.Provision is not set")
		return
	case !provisions || !deletes:
		t.Log("not tested: provisioning needs both a ProvisionableVolumePlugin and a DeletableVolumePlugin")
		return
	case config.Provision.Mounts:
		mountns.RequirePrivate(t)
	}
	for _, check := range provisionChecks {
		if !config.only(check.name) {
			continue
		}
		t.Run(check.name, func(t *testing.T) {
			p := newProvisioning(t, config)
			check.run(p)
			p.finish()
		})
	}
}

func newProvisioning(t *testing.T, config *Config) *provisioning {
	given := config.Provision
	options := volume.ProvisionOptions{
		PVName:       given.Options.PVName,
		Claim:        given.Options.Claim.DeepCopy(),
		Class:        given.Options.Class.DeepCopy(),
		SelectedNode: given.Options.SelectedNode.DeepCopy(),
	}
	require.NotNil(t, options.Claim, "Config.Provision.Options.Claim")
	require.NotNil(t, options.Class, "Config.Provision.Options.Class")
	if options.PVName == "" {
		options.PVName = "pvc-3b1f9e52-0c57-4c0e-8d0a-6a2f5c7d9e10"
	}
	placeholder := &v1.PersistentVolume{}
	placeholder.Name = options.PVName
	subject := Case{
		Spec:    volume.NewSpecFromPersistentVolume(placeholder, false),
		InPlace: given.InPlace, Durable: true, NoData: given.NoData, ExpandTo: given.ExpandTo,
	}
	return &provisioning{newTrial(t, config, subject), options}
}

// try provisions with the instance in use.
func (p *provisioning) try(ctx context.Context) (pv *v1.PersistentVolume, err error) {
	p.Helper()
	plugin := p.plugin().(volume.ProvisionableVolumePlugin)
	claim, class := p.options.Claim.DeepCopy(), p.options.Class.DeepCopy()
	err = p.call("Provision", func() error {
		provisioner, err := plugin.NewProvisioner()
		if err != nil {
			return err
		}
		pv, err = provisioner.Provision(ctx, p.options)
		return err
	})
	assert.Equal(p, claim, p.options.Claim, "the provisioner has changed the claim that it was given")
	assert.Equal(p, class, p.options.Class, "the provisioner has changed the class that it was given")
	if err == nil && pv == nil {
		p.Fatal("Provision returned neither a PersistentVolume nor an error")
	}
	return pv, err
}

// provision makes the volume that was provisioned the trial's subject.
func (p *provisioning) provision() *v1.PersistentVolume {
	p.Helper()
	pv, err := p.try(p.ctx())
	p.fatalIf(err, "Provision")
	p.spec = volume.NewSpecFromPersistentVolume(pv, false)
	p.specBefore = copySpec(p.spec)
	return pv
}

// stored returns the volume as it is when a controller has written it to the API.
func (p *provisioning) stored(pv *v1.PersistentVolume) *v1.PersistentVolume {
	pv = pv.DeepCopy()
	if pv.Annotations[provisionedBy] == "" {
		if pv.Annotations == nil {
			pv.Annotations = make(map[string]string)
		}
		pv.Annotations[provisionedBy] = p.options.Class.Provisioner
	}
	return pv
}

func (p *provisioning) tryDelete(ctx context.Context, pv *v1.PersistentVolume) error {
	p.Helper()
	plugin := p.plugin().(volume.DeletableVolumePlugin)
	return p.call("Delete", func() error {
		deleter, err := plugin.NewDeleter()
		if err != nil {
			return err
		}
		return deleter.Delete(ctx, pv)
	})
}

func (p *provisioning) delete(pv *v1.PersistentVolume) {
	p.Helper()
	p.fatalIf(p.tryDelete(p.ctx(), p.stored(pv)), "Delete")
}

func provisionDescribes(p *provisioning) {
	pv := p.provision()
	assert.Equal(p, p.options.PVName, pv.Name)
	assert.True(p, p.plugin().CanSupport(p.spec), "the plugin does not support what it has provisioned")
	assert.Contains(p, p.plugin().Sources(), volume.Source{Type: p.spec.Source().Type}, "the source of what was provisioned")
	asked, given := p.options.Claim.Spec.Resources.Requests[v1.ResourceStorage], pv.Spec.Capacity[v1.ResourceStorage]
	assert.GreaterOrEqual(p, given.Cmp(asked), 0, "the claim asks for %s, the volume has %s", &asked, &given)
	assert.Subset(p, pv.Spec.AccessModes, p.options.Claim.Spec.AccessModes, "the access modes of the claim")
	if policy := p.options.Class.ReclaimPolicy; policy != nil {
		assert.Equal(p, *policy, pv.Spec.PersistentVolumeReclaimPolicy)
	}
	if mode := p.options.Claim.Spec.VolumeMode; mode != nil {
		require.NotNil(p, pv.Spec.VolumeMode)
		assert.Equal(p, *mode, *pv.Spec.VolumeMode)
	}
	assert.Subset(p, pv.Spec.MountOptions, p.options.Class.MountOptions, "the mount options of the class")
	p.delete(pv)
}

func provisionAgain(p *provisioning) {
	pv := p.provision()
	assert.Equal(p, pv, p.provision(), "what Provision returns for the same name")
	p.restart()
	assert.Equal(p, pv, p.provision(), "what Provision of another instance returns for the same name")
	p.delete(pv)
}

func cancelledProvision(p *provisioning) {
	ctx, cancel := cancelled(p.ctx())
	defer cancel()
	_, _ = p.try(ctx)
	p.restart()
	pv := p.provision()
	_ = p.tryDelete(ctx, p.stored(pv))
	p.restart()
	p.delete(pv)
}

func provisionedCanBeUsed(p *provisioning) {
	pv := p.provision()
	p.setUp()
	if dir, ok := p.writable(); ok {
		file := filepath.Join(dir, "volumetest-file")
		p.write(file, hello)
		p.fatalIf(p.tryTearDown(p.ctx()), "TearDown")
		assert.Equal(p, pv, p.provision(), "what Provision returns when the volume has data")
		p.setUp()
		p.wantFile(file, hello)
	}
	// The deleter removes what is in it.
	p.fatalIf(p.tryTearDown(p.ctx()), "TearDown")
	p.delete(pv)
	p.wantNothing()
}

func deleteCanBeRepeated(p *provisioning) {
	pv := p.provision()
	for range 2 {
		p.delete(pv)
		p.restart()
	}
	again := p.provision()
	p.delete(again)
}

func deleteRefusesForeign(p *provisioning) {
	pv := p.provision()
	p.setUp()
	dir, ok := p.writable()
	file := filepath.Join(dir, "volumetest-file")
	if ok {
		p.write(file, hello)
	}
	p.fatalIf(p.tryTearDown(p.ctx()), "TearDown")
	foreign := p.stored(pv)
	foreign.Annotations[provisionedBy] = "volumetest.example/another"
	assert.Error(p, p.tryDelete(p.ctx(), foreign), "Delete of a volume that, by its annotation %s, another one has provisioned", provisionedBy)
	p.setUp()
	if ok {
		p.wantFile(file, hello)
	}
	p.fatalIf(p.tryTearDown(p.ctx()), "TearDown")
	p.delete(pv)
}
