import type { FastifyRequest } from 'fastify'
import type { KeySetting, RouteSetting, Settings, SettingTypes } from '../lib/settings/schema.ts'
import type { MaybePromise } from './handlers.ts'

export type { Algorithm } from '../lib/algorithms.ts'
export type { KeySetting, RouteSetting, SettingName, Settings } from '../lib/settings/schema.ts'

/** The settings that hold keys. */
export type KeySettings = Pick<SettingTypes, KeySetting>

/** Generates a refresh token: a non-empty string. */
export type GenerateRefreshToken<User> = (request: FastifyRequest, user: User) => MaybePromise<string>

/** All settings, including the keys and the generator of refresh tokens. */
export interface AllSettings<User> extends Settings, KeySettings {
  /** Generates a refresh token. Default: 32 random bytes in base64url. */
  generateRefreshToken: GenerateRefreshToken<User>
}

export type Optional<T> = { [K in keyof T]?: T[K] | undefined }

/** Settings as values. */
export type SettingValues<User> = Optional<AllSettings<User>>

/** `set<Setting>`: the value of a setting, or a synchronous function that computes it once, at registration. */
export type SettingSetters<User> = {
  [K in keyof AllSettings<User> as `set${Capitalize<K>}`]?: AllSettings<User>[K] | (() => AllSettings<User>[K]) | undefined
}

/** `get<Setting>`: computes a setting from a request, once at most, and only if the setting is needed. Only getters of keys can be asynchronous. */
export type SettingGetters<User> = {
  [K in Exclude<keyof AllSettings<User>, RouteSetting> as `get${Capitalize<K>}`]?:
    ((request: FastifyRequest) => K extends KeySetting ? MaybePromise<AllSettings<User>[K]> : AllSettings<User>[K]) | undefined
}

/**
 * Settings that a guard overrides for the routes that it guards.
 * @interface
 */
export type SettingOverrides = Optional<Omit<Settings & KeySettings, RouteSetting>>
